import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.WatcherRemoveCuratorFramework;
import org.apache.curator.framework.api.CuratorWatcher;
import org.apache.curator.framework.recipes.watch.PersistentWatcher;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;

/** Scenarios of watches of all kinds. */
final class Watches {
    private Watches() {
    }

    static void add(Map<String, Stage.Play> plays) {
        plays.put("one-shot watches", Watches::once);
        plays.put("removed watches", Watches::removed);
        plays.put("persistent watches", Watches::persistent);
        plays.put("persistent watcher", Watches::watcher);
    }

    /** Keeps the events that it is told. */
    private static final class Ear implements CuratorWatcher, Watcher {
        private final List<String> heard = new ArrayList<>();

        @Override
        public synchronized void process(WatchedEvent e) {
            heard.add(e.getType() + (e.getPath() == null ? "" : " " + e.getPath()));
        }

        synchronized int size() {
            return heard.size();
        }

        synchronized String all() {
            return String.join(", ", heard);
        }
    }

    /** Waits for so many events, and says them. */
    private static void hear(Stage s, Ear ear, int n) throws Exception {
        s.await(n + " events of " + ear.all(), () -> ear.size() >= n);
        s.say(ear.all());
    }

    private static void once(Stage s) throws Exception {
        s.a.create().creatingParentsIfNeeded().forPath("/n");
        Ear exists = new Ear();
        Ear data = new Ear();
        Ear children = new Ear();
        s.a.checkExists().usingWatcher((CuratorWatcher) exists).forPath("/n/new");
        s.a.getData().usingWatcher((CuratorWatcher) data).forPath("/n");
        s.a.getChildren().usingWatcher((CuratorWatcher) children).forPath("/n");
        s.b.sync().forPath("/n");
        s.b.setData().forPath("/n", Stage.bytes("x"));
        s.b.setData().forPath("/n", Stage.bytes("y"));
        s.b.create().forPath("/n/new");
        s.b.delete().forPath("/n/new");
        for (Ear e : List.of(exists, data, children)) {
            hear(s, e, 1);
        }
        Ear gone = new Ear();
        s.a.sync().forPath("/n");
        s.a.getData().usingWatcher((CuratorWatcher) gone).forPath("/n");
        s.a.getChildren().usingWatcher((CuratorWatcher) gone).forPath("/n");
        s.b.delete().forPath("/n");
        hear(s, gone, 1);
    }

    private static void removed(Stage s) throws Exception {
        s.a.create().creatingParentsIfNeeded().forPath("/n");
        Ear ear = new Ear();
        s.a.getData().usingWatcher((Watcher) ear).forPath("/n");
        s.a.watches().remove((Watcher) ear).ofType(Watcher.WatcherType.Data).forPath("/n");
        hear(s, ear, 1);
        s.say(Stage.outcome(() -> s.a.watches().remove((Watcher) ear).forPath("/n")));
        WatcherRemoveCuratorFramework w = s.a.newWatcherRemoveCuratorFramework();
        Ear second = new Ear();
        w.getData().usingWatcher((Watcher) second).forPath("/n");
        w.checkExists().usingWatcher((Watcher) second).forPath("/none");
        w.removeWatchers();
        s.await("two removals", () -> second.size() == 2);
        s.a.setData().forPath("/n", Stage.bytes("x"));
        s.say("no event of data", !second.all().contains("NodeDataChanged"));
    }

    private static void persistent(Stage s) throws Exception {
        CuratorFramework c = s.client();
        c.create().creatingParentsIfNeeded().forPath("/tree");
        Ear flat = new Ear();
        Ear deep = new Ear();
        // By another client: one session has one watch of these at a path.
        s.a.sync().forPath("/tree");
        s.a.watchers().add().withMode(AddWatchMode.PERSISTENT).usingWatcher((Watcher) flat).forPath("/tree");
        c.watchers().add().withMode(AddWatchMode.PERSISTENT_RECURSIVE).usingWatcher((Watcher) deep).forPath("/tree");
        c.create().forPath("/tree/a");
        c.create().forPath("/tree/a/b");
        c.setData().forPath("/tree/a/b", Stage.bytes("x"));
        c.setData().forPath("/tree", Stage.bytes("x"));
        c.setData().forPath("/tree", Stage.bytes("y"));
        c.delete().forPath("/tree/a/b");
        c.delete().forPath("/tree/a");
        hear(s, flat, 4);
        hear(s, deep, 7);
        c.watches().removeAll().forPath("/tree");
        s.await("the removal", () -> deep.size() >= 8);
        c.setData().forPath("/tree", Stage.bytes("z"));
        s.await("the other goes on", () -> flat.size() >= 5);
        s.say(flat.all());
        s.say(deep.all());
    }

    private static void watcher(Stage s) throws Exception {
        CuratorFramework c = s.client();
        PersistentWatcher w = s.use(new PersistentWatcher(c, "/deep", true));
        Ear ear = new Ear();
        var resets = new java.util.concurrent.atomic.AtomicInteger();
        w.getListenable().addListener(e -> {
            if (e.getType() != Watcher.Event.EventType.None) {
                ear.process(e);
            }
        });
        w.getResetListenable().addListener(resets::incrementAndGet);
        c.blockUntilConnected();
        w.start();
        s.see("it watches", () -> resets.get() >= 1);
        s.a.create().creatingParentsIfNeeded().forPath("/deep/er");
        s.a.create().creatingParentsIfNeeded().forPath("/deep/er/still");
        hear(s, ear, 3);
        s.await("no reset under way", () -> {
            int n = resets.get();
            Thread.sleep(Stage.MOMENT);
            return resets.get() == n;
        });
        int before = resets.get();
        s.expire(c);
        s.see("it watches in a new session", () -> resets.get() > before);
        s.a.delete().forPath("/deep/er/still");
        hear(s, ear, 4);
    }
}
