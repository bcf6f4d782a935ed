import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.nodes.PersistentTtlNode;
import org.apache.zookeeper.CreateMode;

/** Scenarios of znodes that stay as long as their maker wants. */
final class Members {
    private Members() {
    }

    static void add(Map<String, Stage.Play> plays) {
        plays.put("persistent node", Members::persistentNode);
        plays.put("persistent node of an ended session", Members::expires);
        plays.put("persistent ttl node", Members::ttlNode);
        plays.put("group member", Members::group);
    }

    private static boolean made(PersistentNode n) throws Exception {
        return n.waitForInitialCreate(Stage.PATIENCE, TimeUnit.MILLISECONDS);
    }

    private static void persistentNode(Stage s) throws Exception {
        for (CreateMode mode : new CreateMode[]{CreateMode.EPHEMERAL, CreateMode.PERSISTENT, CreateMode.EPHEMERAL_SEQUENTIAL,
            CreateMode.CONTAINER}) {
            boolean guarded = mode == CreateMode.EPHEMERAL_SEQUENTIAL;
            PersistentNode n = s.use(new PersistentNode(s.a, mode, guarded, "/" + mode + "/n", Stage.bytes("one")));
            AtomicInteger created = new AtomicInteger();
            n.getListenable().addListener(path -> created.incrementAndGet());
            n.start();
            s.say(mode, made(n), Stage.plain(n.getActualPath()), s.a.getData().forPath(n.getActualPath()));
            s.await("it is told", () -> created.get() == 1);
            s.await("the other's server has it", () -> s.b.checkExists().forPath(n.getActualPath()) != null);
            s.b.delete().forPath(n.getActualPath());
            s.see("made again", () -> created.get() == 2 && s.a.checkExists().forPath(n.getActualPath()) != null);
            n.setData(Stage.bytes("two"));
            s.see("data changed", () -> Stage.text(s.a.getData().forPath(n.getActualPath())).equals("two"));
            String path = n.getActualPath();
            n.close();
            s.see("gone", () -> s.a.checkExists().forPath(path) == null);
        }
    }

    private static void expires(Stage s) throws Exception {
        CuratorFramework c = s.client();
        PersistentNode n = s.use(new PersistentNode(c, CreateMode.EPHEMERAL, false, "/n", Stage.bytes("one")));
        n.start();
        s.say(made(n));
        s.await("seen", () -> s.a.checkExists().forPath("/n") != null);
        long owner = s.a.checkExists().forPath("/n").getEphemeralOwner();
        s.expire(c);
        s.see("made again, by another session", () -> s.a.checkExists().forPath("/n") != null
            && s.a.checkExists().forPath("/n").getEphemeralOwner() != owner);
    }

    private static void ttlNode(Stage s) throws Exception {
        PersistentTtlNode n = s.use(new PersistentTtlNode(s.a, "/t", 600, Stage.bytes("one")));
        n.start();
        s.say(n.waitForInitialCreate(Stage.PATIENCE, TimeUnit.MILLISECONDS));
        s.await("both are there", () -> s.a.checkExists().forPath("/t/touch") != null);
        s.say(Stage.stat(s.a.checkExists().forPath("/t/touch")), n.getData());
    }

    private static String show(GroupMember g) {
        return g.getCurrentMembers().entrySet().stream().map(e -> e.getKey() + "=" + Stage.text(e.getValue())).sorted()
            .collect(Collectors.joining(" "));
    }

    private static void group(Stage s) throws Exception {
        CuratorFramework c = s.client();
        GroupMember one = s.use(new GroupMember(s.a, "/group", "one", Stage.bytes("1")));
        one.start();
        s.see("one=1", () -> show(one).equals("one=1"));
        GroupMember two = s.use(new GroupMember(s.b, "/group", "two", Stage.bytes("2")));
        GroupMember three = s.use(new GroupMember(c, "/group", "three", Stage.bytes("3")));
        two.start();
        three.start();
        s.see("one=1 three=3 two=2", () -> show(one).equals("one=1 three=3 two=2") && show(two).equals(show(one)));
        two.setThisData(Stage.bytes("22"));
        s.see("one=1 three=3 two=22", () -> show(one).equals("one=1 three=3 two=22"));
        c.close();
        s.see("one=1 two=22", () -> show(one).equals("one=1 two=22"));
        two.close();
        s.see("one=1", () -> show(one).equals("one=1"));
    }
}
