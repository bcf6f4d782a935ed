import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.leader.Participant;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.retry.RetryForever;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;

/**
 * Curator's locks on the other side of a pipe, by the commands of kazoo_peer.py and
 *
 *     die NAME    dead NAME; its session ends, whatever it holds or waits for
 *
 * Its kinds of locks are Mutex, Read and Write, those of elections Latch and Selector.
 * Curator's locks belong to threads, so each has one of its own, and a client.
 */
public class CuratorPeer {
    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private interface Work {
        void run() throws Exception;
    }

    private static void in(ExecutorService thread, Work work) {
        thread.submit(() -> {
            try {
                work.run();
            } catch (Exception e) {
                e.printStackTrace();
                say("failed " + e);
            }
        });
    }

    /** A lock, whose client is its own, and whose znodes have its name as data. */
    private static class Lock {
        private final String name;
        private final CuratorFramework client;
        private final InterProcessMutex lock;
        private volatile boolean dead;

        Lock(String servers, String kind, String name, String path) {
            this.name = name;
            client = connect(servers);
            byte[] data = name.getBytes();
            switch (kind) {
                case "Mutex":
                    lock = new InterProcessMutex(client, path) {
                        @Override
                        protected byte[] getLockNodeBytes() {
                            return data;
                        }
                    };
                    break;
                case "Read":
                    lock = new InterProcessReadWriteLock(client, path, data).readLock();
                    break;
                case "Write":
                    lock = new InterProcessReadWriteLock(client, path, data).writeLock();
                    break;
                default:
                    throw new IllegalArgumentException(kind);
            }
        }

        /** Ends the session, and leaves what it had as it is. */
        void die() {
            dead = true;
            say("dead " + name); // before somebody says that it is next
            client.close();
        }

        void contenders() throws Exception {
            StringBuilder line = new StringBuilder("contenders " + name);
            for (String p : lock.getParticipantNodes()) {
                line.append(" ").append(new String(client.getData().forPath(p)));
            }
            say(line.toString());
        }

        void obey(String[] word) throws Exception {
            try {
                switch (word[0]) {
                    case "try":
                        say((lock.acquire(0, TimeUnit.MILLISECONDS) ? "acquired " : "refused ") + name);
                        break;
                    case "acquire":
                        lock.acquire();
                        say("acquired " + name);
                        break;
                    case "release":
                        lock.release();
                        say("released " + name);
                        break;
                    case "loop":
                        say("looped " + name + " " + loop(client, lock, Integer.parseInt(word[2]), word[3]));
                        break;
                    default:
                        say("what is " + word[0]);
                }
            } catch (Exception e) {
                if (!dead) {
                    throw e;
                }
            }
        }
    }

    /** A candidate of a LeaderLatch or a LeaderSelector. */
    private static class Candidate {
        private final String name;
        private final LeaderLatch latch;
        private final LeaderSelector selector;
        private final CountDownLatch over = new CountDownLatch(1);
        private final CuratorFramework client;

        Candidate(String servers, String kind, String name, String path) {
            this.name = name;
            client = connect(servers);
            if (kind.equals("Latch")) {
                latch = new LeaderLatch(client, path, name);
                selector = null;
                return;
            }
            latch = null;
            selector = new LeaderSelector(client, path, new LeaderSelectorListenerAdapter() {
                @Override
                public void takeLeadership(CuratorFramework c) throws Exception {
                    say("leads " + name);
                    over.await();
                }
            });
            selector.setId(name);
        }

        void campaign() throws Exception {
            if (selector != null) {
                selector.start();
                return;
            }
            latch.start();
            latch.await();
            say("leads " + name);
        }

        void resign() throws Exception {
            over.countDown();
            if (latch != null) {
                latch.close();
            }
            say("resigned " + name);
        }

        /** Ends the session, and leaves what it had as it is. */
        void die() {
            say("dead " + name);
            client.close();
        }

        void contenders() throws Exception {
            Collection<Participant> all = latch != null ? latch.getParticipants() : selector.getParticipants();
            StringBuilder line = new StringBuilder("contenders " + name);
            for (Participant p : all) {
                line.append(" ").append(p.getId());
            }
            say(line.toString());
        }

        void obey(String command) throws Exception {
            switch (command) {
                case "campaign": campaign(); break;
                case "resign": resign(); break;
                case "contenders": contenders(); break;
                default: say("what is " + command);
            }
        }
    }

    private static int loop(CuratorFramework client, InterProcessLock lock, int rounds, String path) throws Exception {
        int clashes = 0;
        for (int i = 0; i < rounds; i++) {
            lock.acquire();
            try {
                client.create().withMode(CreateMode.EPHEMERAL).forPath(path);
                client.delete().forPath(path);
            } catch (KeeperException.NodeExistsException e) {
                clashes++;
            } finally {
                lock.release();
            }
        }
        return clashes;
    }

    private static CuratorFramework connect(String servers) {
        CuratorFramework client = CuratorFrameworkFactory.newClient(servers, new RetryForever(100));
        client.start();
        return client;
    }

    public static void main(String[] args) throws Exception {
        Map<String, Lock> locks = new HashMap<>();
        Map<String, Candidate> candidates = new HashMap<>();
        Map<String, ExecutorService> threads = new HashMap<>();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] word = line.trim().split(" +");
            String name = word[1];
            Lock lock = locks.get(name);
            Candidate candidate = candidates.get(name);
            switch (word[0]) {
                case "new":
                    locks.remove(name);
                    candidates.remove(name);
                    if (word[2].equals("Latch") || word[2].equals("Selector")) {
                        candidates.put(name, new Candidate(args[0], word[2], name, word[3]));
                    } else {
                        locks.put(name, new Lock(args[0], word[2], name, word[3]));
                    }
                    threads.put(name, Executors.newSingleThreadExecutor());
                    say("made " + name);
                    break;
                case "die":
                    if (lock != null) {
                        lock.die();
                    } else {
                        candidate.die();
                    }
                    break;
                case "contenders":
                    if (lock != null) {
                        lock.contenders();
                        break;
                    }
                    // a candidate's own thread tells, behind what it has been asked before
                default:
                    in(threads.get(name), () -> {
                        if (lock != null) {
                            lock.obey(word);
                        } else {
                            candidate.obey(word[0]);
                        }
                    });
            }
        }
        System.exit(0);
    }
}
