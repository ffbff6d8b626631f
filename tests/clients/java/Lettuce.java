import io.lettuce.core.*;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.async.RedisAsyncCommands;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.protocol.ProtocolVersion;
import java.net.ServerSocket;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.TimeUnit;

/** Lettuce by RESP2 and RESP3: handshake, many commands in flight, MULTI, scans, timeouts. */
public final class Lettuce {
  public static void main(String[] words) throws Exception {
    int port = Integer.parseInt(words[0]);
    for (ProtocolVersion version : List.of(ProtocolVersion.RESP2, ProtocolVersion.RESP3)) {
      RedisURI place = RedisURI.builder().withHost("127.0.0.1").withPort(port).withDatabase(6).withClientName("tried").build();
      RedisClient client = RedisClient.create(place);
      client.setOptions(ClientOptions.builder().protocolVersion(version).pingBeforeActivateConnection(true).build());
      try (StatefulRedisConnection<String, String> connection = client.connect()) {
        RedisCommands<String, String> redis = connection.sync();
        redis.flushall();
        handshake(redis, version == ProtocolVersion.RESP3 ? "3" : "2");
        values(redis);
        inFlight(connection.async());
        transactions(redis);
        scans(redis);
      }
      timeouts(version);
      client.shutdown(0, 2, TimeUnit.SECONDS);
    }
    System.exit(0);
  }

  private static void handshake(RedisCommands<String, String> redis, String resp) {
    List<String> said = Arrays.asList(redis.clientInfo().trim().split(" "));
    Check.same("CLIENT INFO", said.containsAll(List.of("name=tried", "db=6", "resp=" + resp)), true);
    Check.same("INFO", redis.info("persistence").contains("loading:0"), true);
    Check.same("CONFIG GET", redis.configGet("databases"), Map.of("databases", "16"));
    Check.same("PING, ECHO", List.of(redis.ping(), redis.echo("x")), List.of("PONG", "x"));
    Check.said("handshake by RESP" + resp + ", CLIENT INFO, INFO, CONFIG GET");
  }

  private static void values(RedisCommands<String, String> redis) throws InterruptedException {
    Check.same("nothing", redis.get("none"), null);
    Check.same("SET NX PX", redis.set("s", "old", SetArgs.Builder.nx().px(60_000)), "OK");
    Check.same("SET NX", redis.set("s", "new", SetArgs.Builder.nx()), null);
    Check.same("SET GET KEEPTTL", redis.setGet("s", "new", SetArgs.Builder.keepttl()), "old");
    Check.same("PTTL", redis.pttl("s") > 50_000, true);
    Check.same("GETEX", redis.getex("s", GetExArgs.Builder.px(20)), "new");
    Check.soon("expiry", () -> redis.exists("s") == 0);
    Check.same("MSET", redis.mset(Map.of("m1", "1", "m2", "zwei")), "OK");
    Check.same("MGET", redis.mget("m1", "m2", "m3"), List.of(KeyValue.just("m1", "1"), KeyValue.just("m2", "zwei"), KeyValue.empty("m3")));
    Check.same("INCR", List.of(redis.incrby("m1", 41), redis.incrbyfloat("m1", 0.5)), List.of(42L, 42.5));
    String large = "0123456789abcdef".repeat(1 << 16);
    Check.same("a MiB", List.of(redis.set("large", large), redis.get("large").equals(large)), List.of("OK", true));
    Check.refused("lists", "unknown command 'LPUSH'", () -> redis.lpush("l", "1"));
    Check.refused("a word", "not an integer", () -> redis.incr("m2"));
    Check.said("SET NX PX GET KEEPTTL, GETEX, MGET, INCRBYFLOAT, a MiB, errors");
  }

  private static void inFlight(RedisAsyncCommands<String, String> redis) throws Exception {
    List<RedisFuture<String>> found = new ArrayList<>();
    for (int index = 0; index < 5000; index++) {
      redis.set("many" + index, Integer.toString(index));
      found.add(redis.get("many" + index));
    }
    Check.same("answers", LettuceFutures.awaitAll(Duration.ofSeconds(20), found.toArray(new RedisFuture[0])), true);
    for (int index = 0; index < found.size(); index++) {
      Check.same("its answer", found.get(index).get(), Integer.toString(index));
    }
    Check.said("10,000 commands in flight");
  }

  private static void transactions(RedisCommands<String, String> redis) {
    redis.multi();
    redis.set("p", "1");
    redis.incrby("p", 4);
    redis.get("p");
    Check.same("MULTI", redis.exec().stream().toList(), List.of("OK", 5L, "5"));
    redis.multi();
    redis.set("p", "y");
    Check.same("DISCARD", List.of(redis.discard(), redis.get("p")), List.of("OK", "5"));
    Check.refused("WATCH", "WATCH", () -> redis.watch("p"));
    Check.said("MULTI, EXEC, DISCARD, WATCH refused");
  }

  private static void scans(RedisCommands<String, String> redis) {
    Set<String> found = new TreeSet<>();
    ScanIterator.scan(redis, ScanArgs.Builder.matches("many*").limit(300)).stream().forEach(found::add);
    Check.same("SCAN", found, new TreeSet<>(redis.keys("many*")));
    Check.said("SCAN: " + found.size() + " keys, each as KEYS says");
  }

  private static void timeouts(ProtocolVersion version) throws Exception {
    try (ServerSocket silent = new ServerSocket(0)) {
      RedisURI place = RedisURI.builder().withHost("127.0.0.1").withPort(silent.getLocalPort()).withTimeout(Duration.ofMillis(100)).build();
      RedisClient client = RedisClient.create(place);
      client.setOptions(ClientOptions.builder().protocolVersion(version).build());
      Check.refused("a silent server", "imed out", () -> client.connect().sync().get("a"));
      client.shutdown(0, 2, TimeUnit.SECONDS);
    }
    Check.said("timeouts");
  }
}
