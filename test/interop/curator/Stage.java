import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryForever;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;

/**
 * What a scenario plays on: two clients with a session each, in a namespace of the
 * scenario's own, and a transcript, which must be the same in every run. So nothing
 * goes into it that depends on the time or on who comes first: await what must
 * happen, then say it.
 */
final class Stage implements AutoCloseable {
    /** How long anything may take. */
    static final long PATIENCE = 20_000;
    /** How long to look for what must not happen. */
    static final long MOMENT = 60;

    final CuratorFramework a;
    final CuratorFramework b;
    final String servers;
    private final String name;
    private final Director director;
    private final StringBuilder transcript = new StringBuilder();
    private final List<AutoCloseable> things = new ArrayList<>();
    private final List<ExecutorService> threads = new ArrayList<>();

    /** Restarts what serves: the lone server, or the leader. */
    interface Director {
        void restart() throws Exception;
    }

    /** A scenario. */
    interface Play {
        void on(Stage s) throws Exception;
    }

    interface Condition {
        boolean holds() throws Exception;
    }

    Stage(String name, String servers, CuratorFramework a, CuratorFramework b, Director director) throws Exception {
        // Curator would make it a container, which goes whenever it is empty.
        a.create().forPath("/" + name);
        b.sync().forPath("/" + name);
        this.name = name;
        this.servers = servers;
        this.a = a.usingNamespace(name);
        this.b = b.usingNamespace(name);
        this.director = director;
    }

    /** A client of its own session, which the scenario may break. */
    CuratorFramework client() {
        CuratorFramework c = connect(servers, name);
        things.add(c);
        return c;
    }

    static CuratorFramework connect(String servers, String namespace) {
        CuratorFramework c = CuratorFrameworkFactory.builder()
            .connectString(servers).namespace(namespace).defaultData(bytes("default")).retryPolicy(new RetryForever(20))
            .sessionTimeoutMs(12_000).connectionTimeoutMs(6_000).build();
        c.start();
        return c;
    }

    /** Ends the session of a client behind its back: it is expired when it looks. */
    void expire(CuratorFramework c) throws Exception {
        ZooKeeper own = c.getZookeeperClient().getZooKeeper();
        var there = new java.util.concurrent.CountDownLatch(1);
        ZooKeeper second = new ZooKeeper(servers, own.getSessionTimeout(), (WatchedEvent e) -> {
            if (e.getState() == org.apache.zookeeper.Watcher.Event.KeeperState.SyncConnected) {
                there.countDown();
            }
        }, own.getSessionId(), own.getSessionPasswd());
        if (!there.await(PATIENCE, TimeUnit.MILLISECONDS)) {
            throw new TimeoutException("a second connection of a session");
        }
        second.close();
    }

    void restart() throws Exception {
        director.restart();
    }

    /** Closes a thing when the scenario is over. */
    <T extends AutoCloseable> T use(T thing) {
        things.add(thing);
        return thing;
    }

    synchronized void say(Object... words) {
        for (int i = 0; i < words.length; i++) {
            transcript.append(i == 0 ? "" : " ").append(words[i] instanceof byte[] d ? text(d) : words[i]);
        }
        transcript.append('\n');
    }

    void say(byte[] data) {
        say((Object) data);
    }

    synchronized String transcript() {
        return transcript.toString();
    }

    /** Waits until the condition holds. */
    void await(String what, Condition c) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(PATIENCE);
        while (!c.holds()) {
            if (System.nanoTime() > deadline) {
                throw new TimeoutException(what);
            }
            Thread.sleep(2);
        }
    }

    /** Waits until the condition holds, and says so. */
    void see(String what, Condition c) throws Exception {
        await(what, c);
        say(what);
    }

    /** A thread of its own, as Curator's locks belong to threads. */
    Actor actor() {
        ExecutorService e = Executors.newSingleThreadExecutor(r -> {
            Thread t = new Thread(r);
            t.setDaemon(true);
            return t;
        });
        threads.add(e);
        return new Actor(e);
    }

    static final class Actor {
        private final ExecutorService thread;

        private Actor(ExecutorService thread) {
            this.thread = thread;
        }

        /** Begins to do something. */
        <T> Future<T> begin(Callable<T> work) {
            return thread.submit(work);
        }

        /** Does something and waits for it. */
        <T> T does(Callable<T> work) throws Exception {
            return done(thread.submit(work));
        }
    }

    static <T> T done(Future<T> f) throws Exception {
        try {
            return f.get(PATIENCE, TimeUnit.MILLISECONDS);
        } catch (ExecutionException e) {
            if (e.getCause() instanceof Exception cause) {
                throw cause;
            }
            throw e;
        }
    }

    /** Whether work that ought to wait does, for a moment. */
    static boolean waits(Future<?> f) throws Exception {
        try {
            f.get(MOMENT, TimeUnit.MILLISECONDS);
            return false;
        } catch (TimeoutException e) {
            return true;
        }
    }

    /** What the work does, or the code of the error with which it fails. */
    static Object outcome(Callable<?> work) throws Exception {
        try {
            return shown(work.call());
        } catch (KeeperException e) {
            return e.code();
        }
    }

    private static Object shown(Object o) {
        return o instanceof byte[] d ? text(d) : o;
    }

    /** The parts of a Stat that are the same in every run. */
    static String stat(Stat s) {
        return "version " + s.getVersion() + " cversion " + s.getCversion() + " aversion " + s.getAversion()
            + " length " + s.getDataLength() + " children " + s.getNumChildren()
            + (s.getEphemeralOwner() != 0 ? " ephemeral" : "");
    }

    static byte[] bytes(String s) {
        return s.getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] d) {
        return new String(d, StandardCharsets.UTF_8);
    }

    /** A name with its random part replaced. */
    static String plain(String path) {
        return path.replaceAll("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "GUID");
    }

    @Override
    public void close() throws Exception {
        for (int i = things.size() - 1; i >= 0; i--) {
            try {
                things.get(i).close();
            } catch (IllegalStateException | IOException e) {
                continue; // closed by the scenario
            }
        }
        threads.forEach(ExecutorService::shutdownNow);
    }
}
