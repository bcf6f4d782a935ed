import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.api.CuratorEvent;
import org.apache.curator.framework.api.transaction.CuratorOp;
import org.apache.curator.framework.api.transaction.CuratorTransactionResult;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Id;
import org.apache.zookeeper.data.Stat;

/** Scenarios of the client itself: what it creates, reads, changes and deletes. */
final class Nodes {
    private Nodes() {
    }

    static void add(Map<String, Stage.Play> plays) {
        plays.put("namespace", Nodes::namespace);
        plays.put("data", Nodes::data);
        plays.put("modes", Nodes::modes);
        plays.put("protection", Nodes::protection);
        plays.put("ttl and containers", Nodes::ttl);
        plays.put("transactions", Nodes::transactions);
        plays.put("background", Nodes::background);
        plays.put("acl", Nodes::acl);
        plays.put("configuration", Nodes::configuration);
    }

    private static void namespace(Stage s) throws Exception {
        s.say(s.a.create().creatingParentsIfNeeded().forPath("/x/y/z", Stage.bytes("deep")));
        CuratorFramework whole = s.a.usingNamespace(null);
        s.say(whole.getData().forPath("/namespace/x/y/z"));
        s.say(s.a.getChildren().forPath("/"), s.a.getNamespace(), whole.getNamespace());
        s.say(s.a.create().creatingParentContainersIfNeeded().forPath("/c/d"), Stage.stat(s.a.checkExists().forPath("/c")));
        s.say(s.a.checkExists().forPath("/none"));
        s.say(s.a.checkExists().creatingParentsIfNeeded().forPath("/made/none"), Stage.stat(s.a.checkExists().forPath("/made")));
        s.say(Stage.outcome(() -> s.a.create().forPath("/no/parent")));
        s.say(Stage.outcome(() -> s.a.create().forPath("/x")));
    }

    private static void data(Stage s) throws Exception {
        Stat st = new Stat();
        s.a.create().storingStatIn(st).creatingParentsIfNeeded().forPath("/n", Stage.bytes("one"));
        s.say("created", Stage.stat(st));
        s.say(Stage.stat(s.a.setData().withVersion(0).forPath("/n", Stage.bytes("two"))));
        s.say(Stage.outcome(() -> s.a.setData().withVersion(0).forPath("/n", Stage.bytes("three"))));
        s.b.sync().forPath("/n");
        s.say(s.b.getData().storingStatIn(st).forPath("/n"), Stage.stat(st));
        s.a.create().orSetData().forPath("/n", Stage.bytes("set"));
        s.a.create().orSetData(7).forPath("/o", Stage.bytes("new"));
        s.say(Stage.outcome(() -> s.a.create().orSetData(7).forPath("/o", Stage.bytes("not"))));
        s.say(s.a.getData().forPath("/n"), s.a.getData().forPath("/o"));
        s.say("again", s.a.create().idempotent().forPath("/o", Stage.bytes("new")));
        s.say(Stage.outcome(() -> s.a.create().idempotent().forPath("/o", Stage.bytes("other"))));
        s.say("again", Stage.stat(s.a.setData().idempotent().withVersion(1).forPath("/n", Stage.bytes("set"))));
        s.a.create().compressed().forPath("/z", new byte[5000]);
        s.say(s.a.getData().decompressed().forPath("/z").length, s.a.getData().forPath("/z").length < 100);
        s.say("empty", s.a.create().forPath("/e", new byte[0]), s.a.getData().forPath("/e").length);
        s.a.create().creatingParentsIfNeeded().forPath("/tree/of/three");
        s.say(Stage.outcome(() -> s.a.delete().forPath("/tree")));
        s.say(Stage.outcome(() -> s.a.delete().withVersion(4).forPath("/tree/of/three")));
        s.a.delete().guaranteed().deletingChildrenIfNeeded().forPath("/tree");
        s.say(s.a.checkExists().forPath("/tree"), Stage.outcome(() -> s.a.delete().forPath("/tree")));
        s.a.delete().quietly().forPath("/tree");
        s.a.delete().idempotent().forPath("/tree");
    }

    private static void modes(Stage s) throws Exception {
        for (CreateMode mode : CreateMode.values()) {
            Stat st = new Stat();
            String path;
            if (mode.isTTL()) {
                path = s.a.create().withTtl(600_000).storingStatIn(st).creatingParentsIfNeeded().withMode(mode)
                    .forPath("/" + mode + "-", Stage.bytes("d"));
            } else {
                path = s.a.create().storingStatIn(st).creatingParentsIfNeeded().withMode(mode)
                    .forPath("/" + mode + "-", Stage.bytes("d"));
            }
            s.say(path, Stage.stat(st));
            if (mode.isEphemeral()) {
                s.say(Stage.outcome(() -> s.a.create().forPath(path + "/child")));
            }
            s.a.delete().forPath(path);
        }
        CuratorFramework c = s.client();
        c.create().withMode(CreateMode.EPHEMERAL).forPath("/eph");
        s.see("another sees it", () -> s.a.checkExists().forPath("/eph") != null);
        c.close();
        s.see("gone with its session", () -> s.a.checkExists().forPath("/eph") == null);
    }

    private static void protection(Stage s) throws Exception {
        s.a.create().creatingParentsIfNeeded().forPath("/p");
        for (CreateMode mode : List.of(CreateMode.PERSISTENT, CreateMode.EPHEMERAL_SEQUENTIAL)) {
            String path = s.a.create().withProtection().withMode(mode).forPath("/p/n-", Stage.bytes("p"));
            s.say(Stage.plain(path), s.a.getData().forPath(path));
        }
        String path = s.a.create().creatingParentContainersIfNeeded().withProtection()
            .withMode(CreateMode.EPHEMERAL_SEQUENTIAL).forPath("/q/r/n-");
        s.say(Stage.plain(path), Stage.stat(s.a.checkExists().forPath("/q/r")));
    }

    private static void ttl(Stage s) throws Exception {
        s.a.create().withTtl(150).creatingParentsIfNeeded().withMode(CreateMode.PERSISTENT_WITH_TTL).forPath("/short");
        s.a.create().withTtl(3_600_000).creatingParentsIfNeeded().withMode(CreateMode.PERSISTENT_WITH_TTL).forPath("/long");
        s.a.create().creatingParentContainersIfNeeded().forPath("/box/inside");
        s.say(Stage.stat(s.a.checkExists().forPath("/box")));
        s.a.delete().forPath("/box/inside");
        s.see("the short one is gone", () -> s.a.checkExists().forPath("/short") == null);
        s.see("the empty container is gone", () -> s.a.checkExists().forPath("/box") == null);
        s.say(Stage.stat(s.a.checkExists().forPath("/long")));
    }

    private static void transactions(Stage s) throws Exception {
        s.a.create().creatingParentsIfNeeded().forPath("/t");
        CuratorOp create = s.a.transactionOp().create().withMode(CreateMode.PERSISTENT).forPath("/t/a", Stage.bytes("1"));
        CuratorOp sequential = s.a.transactionOp().create().withMode(CreateMode.PERSISTENT_SEQUENTIAL).forPath("/t/s-");
        CuratorOp ttl = s.a.transactionOp().create().withTtl(600_000).withMode(CreateMode.PERSISTENT_WITH_TTL).forPath("/t/ttl");
        CuratorOp set = s.a.transactionOp().setData().withVersion(0).forPath("/t/a", Stage.bytes("2"));
        CuratorOp check = s.a.transactionOp().check().withVersion(1).forPath("/t/a");
        CuratorOp delete = s.a.transactionOp().delete().withVersion(1).forPath("/t/a");
        for (CuratorTransactionResult r : s.a.transaction().forOperations(create, sequential, ttl, set, check, delete)) {
            s.say(r.getType(), r.getForPath(), r.getResultPath(), r.getResultStat() == null ? "" : Stage.stat(r.getResultStat()),
                r.getError());
        }
        try {
            s.a.transaction().forOperations(create, s.a.transactionOp().delete().forPath("/t/none"), delete);
        } catch (KeeperException e) {
            s.say(e.code());
            e.getResults().forEach(r -> s.say(r.getType(), r instanceof org.apache.zookeeper.OpResult.ErrorResult x ? x.getErr() : ""));
        }
        s.say(s.a.getChildren().forPath("/t").stream().sorted().toList());
    }

    private static void background(Stage s) throws Exception {
        s.a.create().creatingParentsIfNeeded().forPath("/g");
        CountDownLatch over = new CountDownLatch(5);
        CuratorEvent[] got = new CuratorEvent[5];
        s.a.create().inBackground((c, e) -> { got[0] = e; over.countDown(); }, "context").forPath("/g/h", Stage.bytes("x"));
        s.a.setData().inBackground((c, e) -> { got[1] = e; over.countDown(); }).forPath("/g/h", Stage.bytes("y"));
        s.a.getData().inBackground((c, e) -> { got[2] = e; over.countDown(); }).forPath("/g/h");
        s.a.getChildren().inBackground((c, e) -> { got[3] = e; over.countDown(); }).forPath("/g");
        s.a.delete().inBackground((c, e) -> { got[4] = e; over.countDown(); }).forPath("/g/none");
        s.await("all answers", () -> over.getCount() == 0);
        for (CuratorEvent e : got) {
            s.say(e.getType(), e.getResultCode(), e.getPath(), e.getName(), e.getChildren(), e.getContext(),
                e.getData() == null ? "" : Stage.text(e.getData()));
        }
    }

    private static void acl(Stage s) throws Exception {
        CuratorFramework owner = s.client();
        owner.getZookeeperClient().getZooKeeper().addAuthInfo("digest", Stage.bytes("me:secret"));
        s.say(owner.create().creatingParentsIfNeeded().withACL(ZooDefs.Ids.CREATOR_ALL_ACL).forPath("/mine", Stage.bytes("s")));
        s.b.sync().forPath("/mine"); // who may not read is told so by exists as well, from 3.9 on
        s.say(Stage.outcome(() -> s.b.getData().forPath("/mine")), Stage.outcome(() -> s.b.setData().forPath("/mine")));
        s.say(owner.getACL().forPath("/mine").toString().strip());
        owner.setACL().withVersion(0).withACL(List.of(
            new ACL(ZooDefs.Perms.READ, new Id("world", "anyone")),
            new ACL(ZooDefs.Perms.ALL, new Id("auth", "")))).forPath("/mine");
        s.b.sync().forPath("/mine");
        s.say(Stage.outcome(() -> s.b.getData().forPath("/mine")), Stage.outcome(() -> s.b.setData().forPath("/mine")));
        s.say(Stage.outcome(() -> owner.setACL().withVersion(0).withACL(ZooDefs.Ids.OPEN_ACL_UNSAFE).forPath("/mine")));
    }

    /** What Curator's EnsembleTracker reads: the members, or nothing of a lone server. */
    private static void configuration(Stage s) throws Exception {
        String config = Stage.text(s.a.getConfig().forEnsemble());
        long members = config.lines().filter(l -> l.startsWith("server.")).count();
        int servers = s.servers.split(",").length;
        s.say(members == (servers == 1 ? 0 : servers));
        s.say(Stage.outcome(() -> s.a.reconfig().leaving("99").forEnsemble()));
    }
}
