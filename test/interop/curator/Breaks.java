import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.zookeeper.CreateMode;

/** Scenarios of lost connections and sessions. */
final class Breaks {
    private Breaks() {
    }

    static void add(Map<String, Stage.Play> plays) {
        plays.put("end of a session", Breaks::expired);
        plays.put("restart of the server", Breaks::restarted);
    }

    private static List<ConnectionState> states(CuratorFramework c) {
        List<ConnectionState> states = java.util.Collections.synchronizedList(new ArrayList<>());
        c.getConnectionStateListenable().addListener((x, state) -> states.add(state));
        return states;
    }

    private static long session(CuratorFramework c) throws Exception {
        return c.getZookeeperClient().getZooKeeper().getSessionId();
    }

    private static void expired(Stage s) throws Exception {
        CuratorFramework c = s.client();
        c.create().withMode(CreateMode.EPHEMERAL).forPath("/e");
        List<ConnectionState> states = states(c);
        long before = session(c);
        s.expire(c);
        s.await("a new session in " + states, () -> states.contains(ConnectionState.LOST)
            && states.get(states.size() - 1) == ConnectionState.RECONNECTED);
        s.say(states);
        s.say("another session", session(c) != before, c.checkExists().forPath("/e"));
        c.create().withMode(CreateMode.EPHEMERAL).forPath("/e");
    }

    private static void restarted(Stage s) throws Exception {
        CuratorFramework c = s.client();
        CuratorFramework d = s.client();
        InterProcessMutex held = new InterProcessMutex(c, "/lock");
        held.acquire();
        Future<Void> waiter = s.actor().begin(() -> {
            new InterProcessMutex(d, "/lock").acquire();
            return null;
        });
        s.await("a waiter", () -> s.a.getChildren().forPath("/lock").size() == 2);
        LeaderLatch latch = s.use(new LeaderLatch(c, "/leader"));
        latch.start();
        latch.await();
        PersistentNode node = s.use(new PersistentNode(c, CreateMode.EPHEMERAL, false, "/node", Stage.bytes("n")));
        node.start();
        CuratorCache cache = s.use(CuratorCache.build(d, "/cached"));
        SharedCount count = s.use(new SharedCount(d, "/count", 1));
        s.a.create().forPath("/cached");
        cache.start();
        count.start();
        s.await("a cache", () -> cache.size() == 1);
        AtomicInteger fired = new AtomicInteger();
        c.checkExists().usingWatcher((org.apache.zookeeper.Watcher) e -> {
            if (e.getPath() != null) {
                fired.incrementAndGet();
            }
        }).forPath("/watched");
        long before = session(c);
        List<ConnectionState> states = states(c);
        s.restart();
        s.await("reconnected", () -> states.contains(ConnectionState.RECONNECTED));
        s.say(states, "the same session", session(c) == before);
        s.say("the waiter waits", Stage.waits(waiter));
        held.release();
        Stage.done(waiter);
        s.say("and has the lock");
        s.see("leads again", latch::hasLeadership);
        s.see("the node is there", () -> s.a.checkExists().forPath("/node") != null);
        s.a.create().forPath("/cached/after");
        s.see("the cache goes on", () -> cache.size() == 2);
        s.a.create().forPath("/watched");
        s.see("the watch was kept", () -> fired.get() == 1);
        SharedCount other = s.use(new SharedCount(s.a, "/count", 1));
        other.start();
        other.setCount(2);
        s.see("the count goes on", () -> count.getCount() == 2);
    }
}
