import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.cache.ChildData;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.curator.framework.recipes.cache.NodeCache;
import org.apache.curator.framework.recipes.cache.PathChildrenCache;
import org.apache.curator.framework.recipes.cache.TreeCache;

/** Scenarios of caches. One client changes, the other has the cache; one change at a time, as they merge. */
@SuppressWarnings("deprecation")
final class Caches {
    private Caches() {
    }

    static void add(Map<String, Stage.Play> plays) {
        plays.put("node cache", Caches::node);
        plays.put("path children cache", Caches::pathChildren);
        plays.put("tree cache", Caches::tree);
        plays.put("curator cache", Caches::curator);
        plays.put("curator cache of one node", Caches::single);
        plays.put("curator cache of a large tree", Caches::large);
    }

    /** What a cache tells. */
    private static final class Events {
        private final List<String> list = new ArrayList<>();

        synchronized void tell(Object what, ChildData d) {
            list.add(what + (d == null ? "" : " " + d.getPath()
                + (d.getData() == null ? "" : "=" + Stage.text(d.getData()))));
        }

        synchronized int size() {
            return list.size();
        }

        synchronized List<String> from(int n) {
            return List.copyOf(list.subList(n, list.size()));
        }
    }

    /** Does something, waits for as many events, and says them. */
    private static void step(Stage s, Events e, int n, Stage.Play what) throws Exception {
        int before = e.size();
        what.on(s);
        s.await(n + " events: " + e.from(before), () -> e.size() >= before + n);
        s.say(e.from(before).stream().sorted().toList());
    }

    private static void node(Stage s) throws Exception {
        NodeCache cache = s.use(new NodeCache(s.b, "/n"));
        Events events = new Events();
        cache.getListenable().addListener(() -> events.tell("changed", cache.getCurrentData()));
        cache.start(true);
        s.say(cache.getCurrentData());
        step(s, events, 1, x -> s.a.create().creatingParentsIfNeeded().forPath("/n", Stage.bytes("one")));
        step(s, events, 1, x -> s.a.setData().forPath("/n", Stage.bytes("two")));
        step(s, events, 1, x -> s.a.delete().forPath("/n"));
        step(s, events, 1, x -> s.a.create().forPath("/n", Stage.bytes("three")));
        s.say(Stage.stat(cache.getCurrentData().getStat()));
    }

    private static void pathChildren(Stage s) throws Exception {
        s.a.create().creatingParentsIfNeeded().forPath("/p/first", Stage.bytes("0"));
        s.b.sync().forPath("/p");
        PathChildrenCache cache = s.use(new PathChildrenCache(s.b, "/p", true));
        Events events = new Events();
        cache.getListenable().addListener((c, e) -> events.tell(e.getType(), e.getData()));
        step(s, events, 2, x -> cache.start(PathChildrenCache.StartMode.POST_INITIALIZED_EVENT));
        step(s, events, 1, x -> s.a.create().forPath("/p/a", Stage.bytes("1")));
        step(s, events, 1, x -> s.a.setData().forPath("/p/a", Stage.bytes("2")));
        s.a.create().forPath("/p/a/deep");
        step(s, events, 1, x -> s.a.create().forPath("/p/b"));
        step(s, events, 1, x -> s.a.delete().forPath("/p/b"));
        s.say(cache.getCurrentData().stream().map(d -> d.getPath() + " " + Stage.text(d.getData())).toList());
        s.a.sync().forPath("/p");
        cache.rebuild();
        s.say(cache.getCurrentData().size());
    }

    private static void tree(Stage s) throws Exception {
        s.a.create().creatingParentsIfNeeded().forPath("/t/x/y", Stage.bytes("0"));
        s.b.sync().forPath("/t");
        TreeCache cache = s.use(TreeCache.newBuilder(s.b, "/t").setMaxDepth(3).build());
        Events events = new Events();
        cache.getListenable().addListener((c, e) -> events.tell(e.getType(), e.getData()));
        step(s, events, 4, x -> cache.start());
        step(s, events, 1, x -> s.a.create().forPath("/t/a", Stage.bytes("1")));
        step(s, events, 1, x -> s.a.create().forPath("/t/a/b", Stage.bytes("2")));
        step(s, events, 1, x -> s.a.create().forPath("/t/a/b/c", Stage.bytes("3")));
        s.a.create().forPath("/t/a/b/c/toodeep");
        step(s, events, 1, x -> s.a.setData().forPath("/t/a/b", Stage.bytes("22")));
        s.a.delete().forPath("/t/a/b/c/toodeep");
        step(s, events, 3, x -> s.a.delete().deletingChildrenIfNeeded().forPath("/t/a"));
        s.say(new TreeMap<>(cache.getCurrentChildren("/t")).keySet(), cache.getCurrentData("/t/x/y").getData());
        step(s, events, 3, x -> s.a.delete().deletingChildrenIfNeeded().forPath("/t"));
        step(s, events, 1, x -> s.a.create().forPath("/t"));
    }

    private static void curator(Stage s) throws Exception {
        CuratorFramework b = s.client();
        s.a.create().creatingParentsIfNeeded().forPath("/c/x", Stage.bytes("0"));
        b.sync().forPath("/c");
        CuratorCache cache = s.use(CuratorCache.build(b, "/c"));
        Events events = new Events();
        cache.listenable().addListener(CuratorCacheListener.builder()
            .forCreates(d -> events.tell("created", d))
            .forChanges((old, d) -> events.tell("changed from " + Stage.text(old.getData()), d))
            .forDeletes(d -> events.tell("deleted", d))
            .forInitialized(() -> events.tell("initialized", null)).build());
        step(s, events, 3, x -> cache.start());
        step(s, events, 1, x -> s.a.create().forPath("/c/a", Stage.bytes("1")));
        step(s, events, 1, x -> s.a.create().forPath("/c/a/b", Stage.bytes("2")));
        step(s, events, 1, x -> s.a.setData().forPath("/c/a/b", Stage.bytes("3")));
        step(s, events, 2, x -> s.a.delete().deletingChildrenIfNeeded().forPath("/c/a"));
        s.say(cache.size(), cache.get("/c/x").isPresent(), cache.get("/c/a").isPresent());
        s.expire(b);
        step(s, events, 1, x -> s.a.create().forPath("/c/after", Stage.bytes("4")));
        step(s, events, 1, x -> s.a.setData().forPath("/c/x", Stage.bytes("5")));
    }

    private static void single(Stage s) throws Exception {
        CuratorCache cache = s.use(CuratorCache.build(s.b, "/s", CuratorCache.Options.SINGLE_NODE_CACHE));
        Events events = new Events();
        cache.listenable().addListener((type, old, d) -> events.tell(type, d == null ? old : d));
        cache.start();
        step(s, events, 1, x -> s.a.create().creatingParentsIfNeeded().forPath("/s", Stage.bytes("1")));
        s.a.create().forPath("/s/child");
        step(s, events, 1, x -> s.a.setData().forPath("/s", Stage.bytes("2")));
        step(s, events, 1, x -> s.a.delete().deletingChildrenIfNeeded().forPath("/s"));
    }

    private static void large(Stage s) throws Exception {
        for (int i = 0; i < 300; i++) {
            s.a.create().creatingParentsIfNeeded().forPath("/l/" + i % 10 + "/" + i, Stage.bytes("" + i));
        }
        CuratorCache cache = s.use(CuratorCache.build(s.b, "/l"));
        cache.start();
        s.see("all of it", () -> cache.size() == 311);
        for (int i = 0; i < 300; i += 3) {
            s.a.setData().inBackground().forPath("/l/" + i % 10 + "/" + i, Stage.bytes("new"));
            s.a.delete().inBackground().forPath("/l/" + (i + 1) % 10 + "/" + (i + 1));
        }
        s.see("all changes", () -> cache.size() == 211
            && cache.stream().filter(d -> Stage.text(d.getData()).equals("new")).count() == 100);
    }
}
