import java.util.*;
import java.util.concurrent.TimeUnit;
import net.spy.memcached.*;

/** spymemcached by the text protocol: conditional stores, cas, get of many keys at once, types by flags, expiry. */
public final class Spymemcached {
  public static void main(String[] words) throws Exception {
    System.setProperty("net.spy.log.LoggerImpl", "net.spy.memcached.compat.log.SunLogger");
    java.util.logging.Logger.getLogger("net.spy.memcached").setLevel(java.util.logging.Level.OFF);
    ConnectionFactory text = new ConnectionFactoryBuilder().setProtocol(ConnectionFactoryBuilder.Protocol.TEXT)
        .setOpTimeout(10_000).setTranscoder(new net.spy.memcached.transcoders.SerializingTranscoder(2 << 20)).build();
    MemcachedClient client = new MemcachedClient(text, AddrUtil.getAddresses("127.0.0.1:" + words[1]));
    Check.same("flush_all", client.flush().get(), true);
    stores(client);
    tokens(client);
    many(client);
    server(client);
    client.shutdown(2, TimeUnit.SECONDS);
  }

  private static void stores(MemcachedClient client) throws Exception {
    Check.same("nothing", client.get("none"), null);
    Check.same("set", List.of(client.set("a", 100, "1").get(), client.get("a")), List.of(true, "1"));
    Check.same("add", List.of(client.add("a", 0, "2").get(), client.add("b", 0, "2").get()), List.of(false, true));
    Check.same("replace", List.of(client.replace("b", 0, "3").get(), client.replace("c", 0, "3").get()), List.of(true, false));
    Check.same("append, prepend", List.of(client.append("b", "4").get(), client.prepend("b", "2").get(), client.get("b")),
        List.of(true, true, "234"));
    Check.same("delete", List.of(client.delete("b").get(), client.delete("b").get()), List.of(true, false));
    Check.same("touch", List.of(client.touch("a", 50).get(), client.touch("b", 50).get()), List.of(true, false));
    Check.same("incr", List.of(client.incr("n", 5, 40, 0), client.incr("n", 2), client.decr("n", 100)), List.of(40L, 42L, 0L));
    Check.same("incr of nothing", client.incr("none", 1), -1L);
    client.set("short", 1, "x").get();
    Check.soon("expiry", () -> client.get("short") == null);
    Check.said("set add replace append prepend delete touch incr decr, expiry");
  }

  private static void tokens(MemcachedClient client) throws Exception {
    client.set("t", 0, "old").get();
    CASValue<Object> found = client.gets("t");
    Check.same("gets", found.getValue(), "old");
    Check.same("cas", client.cas("t", found.getCas(), "new"), CASResponse.OK);
    Check.same("cas by an old token", client.cas("t", found.getCas(), "other"), CASResponse.EXISTS);
    Check.same("cas of nothing", client.cas("none", found.getCas(), "x"), CASResponse.NOT_FOUND);
    Check.same("after it", client.get("t"), "new");
    // Eight threads that each add ten letters by cas lose none.
    client.set("log", 0, "").get();
    CASMutator<Object> mutator = new CASMutator<>(client, client.getTranscoder(), 10_000);
    List<Thread> threads = new ArrayList<>();
    for (int index = 0; index < 8; index++) {
      Thread thread = new Thread(() -> {
        for (int step = 0; step < 10; step++) {
          try {
            mutator.cas("log", "", 0, current -> current + "x");
          } catch (Exception error) {
            Check.same("cas of many threads", error, null);
          }
        }
      });
      thread.start();
      threads.add(thread);
    }
    for (Thread thread : threads) {
      thread.join();
    }
    Check.same("letters", client.get("log"), "x".repeat(80));
    Check.said("gets, cas, its conflicts, 80 changes by 8 threads");
  }

  private static void many(MemcachedClient client) throws Exception {
    Map<String, Object> values = new HashMap<>();
    for (int index = 0; index < 500; index++) {
      values.put("many" + index, index % 2 == 0 ? (Object) index : List.of("value", (long) index, new Date(index)));
    }
    byte[] bytes = new byte[900_000];
    new Random(7).nextBytes(bytes);
    for (Map.Entry<String, Object> entry : values.entrySet()) {
      Check.same("set", client.set(entry.getKey(), 0, entry.getValue()).get(), true);
    }
    Map<String, Object> found = client.getBulk(values.keySet());
    Check.same("almost all are there", found.size() > 490, true);
    found.forEach((key, value) -> Check.same(key, value, values.get(key)));
    Check.same("bytes", client.set("bytes", 0, bytes).get(), true);
    Check.same("the same bytes", Arrays.equals((byte[]) client.get("bytes"), bytes), true);
    String text = "text that is compressed ".repeat(40_000);
    Check.same("text", List.of(client.set("text", 0, text).get(), client.get("text").equals(text)), List.of(true, true));
    Check.said("get of 500 keys at once, numbers, objects, bytes and compressed text by flags");
  }

  private static void server(MemcachedClient client) throws Exception {
    Check.same("version", client.getVersions().values().iterator().next(), "1.6.18");
    Map<String, String> stats = client.getStats().values().iterator().next();
    Check.same("stats", Long.parseLong(stats.get("get_hits")) > 0, true);
    Check.same("flush_all", client.flush().get(), true);
    Check.same("after it", client.get("a"), null);
    Check.said("version, stats, flush_all");
  }
}
