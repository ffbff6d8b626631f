import java.net.ServerSocket;
import java.util.*;
import redis.clients.jedis.*;
import redis.clients.jedis.params.*;
import redis.clients.jedis.resps.ScanResult;

/** Jedis by RESP2 and RESP3: handshake, pipelines, MULTI, scans, pools, timeouts. */
public final class Jedis {
  public static void main(String[] words) throws Exception {
    HostAndPort place = new HostAndPort("127.0.0.1", Integer.parseInt(words[0]));
    for (RedisProtocol protocol : List.of(RedisProtocol.RESP2, RedisProtocol.RESP3)) {
      JedisClientConfig config =
          DefaultJedisClientConfig.builder().protocol(protocol).database(7).clientName("tried").build();
      try (RedisClient redis = RedisClient.builder().hostAndPort(place).clientConfig(config).build()) {
        redis.flushAll();
        values(redis, protocol);
        pipelines(redis);
        scans(redis);
        threads(redis);
      }
      timeouts(protocol);
    }
  }

  private static void values(RedisClient redis, RedisProtocol protocol) throws InterruptedException {
    Check.same("PING", redis.ping(), "PONG");
    Check.same("nothing", redis.get("none"), null);
    Check.same("SET NX PX", redis.set("s", "old", new SetParams().nx().px(60_000)), "OK");
    Check.same("SET NX", redis.set("s", "new", new SetParams().nx()), null);
    Check.same("SET GET KEEPTTL", redis.setGet("s", "new", new SetParams().keepTtl()), "old");
    Check.same("PTTL", redis.pttl("s") > 50_000, true);
    Check.same("GETEX", redis.getEx("s", new GetExParams().px(20)), "new");
    Check.soon("expiry", () -> !redis.exists("s"));
    Check.same("MSET", redis.mset("m1", "1", "m2", "zwei"), "OK");
    Check.same("MGET", redis.mget("m1", "m2", "m3"), Arrays.asList("1", "zwei", null));
    Check.same("INCR", List.of(redis.incrBy("m1", 41), redis.incrByFloat("m1", 0.5)), List.of(42L, 42.5));
    byte[] bytes = new byte[1 << 20];
    new Random(7).nextBytes(bytes);
    Check.same("a MiB of bytes", redis.set(new byte[] {0, -1, 10}, bytes), "OK");
    Check.same("the same bytes", Arrays.equals(redis.get(new byte[] {0, -1, 10}), bytes), true);
    Check.refused("lists", "unknown command 'LPUSH'", () -> redis.lpush("l", "1"));
    Check.refused("a word", "not an integer", () -> redis.incr("m2"));
    Check.said("handshake by " + protocol + "; SET NX PX GET KEEPTTL, GETEX, MGET, INCRBYFLOAT, bytes, errors");
  }

  private static void pipelines(RedisClient redis) {
    List<Response<String>> found = new ArrayList<>();
    try (AbstractPipeline pipeline = redis.pipelined()) {
      for (int index = 0; index < 5000; index++) {
        pipeline.set("many" + index, Integer.toString(index));
        found.add(pipeline.get("many" + index));
      }
    }
    for (int index = 0; index < found.size(); index++) {
      Check.same("its answer", found.get(index).get(), Integer.toString(index));
    }
    try (AbstractTransaction multi = redis.multi()) {
      multi.set("p", "1");
      multi.incrBy("p", 4);
      multi.get("p");
      Check.same("MULTI", multi.exec(), List.of("OK", 5L, "5"));
    }
    try (AbstractTransaction multi = redis.multi()) {
      multi.set("p", "y");
      Check.same("DISCARD", multi.discard(), "OK");
    }
    Check.same("nothing of it was done", redis.get("p"), "5");
    Check.refused("WATCH", "WATCH", () -> redis.transaction(false).watch("p"));
    Check.said("a pipeline of 10,000 commands, MULTI, DISCARD, WATCH refused");
  }

  private static void scans(RedisClient redis) {
    Set<String> found = new TreeSet<>();
    String cursor = ScanParams.SCAN_POINTER_START;
    do {
      ScanResult<String> some = redis.scan(cursor, new ScanParams().match("many*").count(300));
      found.addAll(some.getResult());
      cursor = some.getCursor();
    } while (!cursor.equals(ScanParams.SCAN_POINTER_START));
    Check.same("SCAN", found, new TreeSet<>(redis.keys("many*")));
    Check.said("SCAN: " + found.size() + " keys, each as KEYS says");
  }

  private static void threads(RedisClient redis) throws InterruptedException {
    redis.set("count", "0");
    List<Thread> threads = new ArrayList<>();
    for (int index = 0; index < 8; index++) {
      Thread thread = new Thread(() -> {
        for (int step = 0; step < 200; step++) {
          redis.incr("count");
        }
      });
      thread.start();
      threads.add(thread);
    }
    for (Thread thread : threads) {
      thread.join();
    }
    Check.same("increments", redis.get("count"), "1600");
    Check.said("1,600 increments over a pool");
  }

  private static void timeouts(RedisProtocol protocol) throws Exception {
    try (ServerSocket silent = new ServerSocket(0)) {
      JedisClientConfig config = DefaultJedisClientConfig.builder().protocol(protocol).timeoutMillis(50).build();
      HostAndPort place = new HostAndPort("127.0.0.1", silent.getLocalPort());
      Check.refused("a silent server", "imed out", () -> {
        try (RedisClient deaf = RedisClient.builder().hostAndPort(place).clientConfig(config).build()) {
          return deaf.get("a");
        }
      });
    }
    Check.said("timeouts");
  }
}
