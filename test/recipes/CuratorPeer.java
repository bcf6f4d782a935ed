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
 * Curator's locks on the other side of a pipe, by the commands of kazoo_peer.py. Its
 * kinds of locks are Mutex, Read and Write, those of elections Latch and Selector.
 * Curator's locks belong to threads, so each has one of its own.
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

    private static InterProcessLock make(CuratorFramework client, String kind, String path) {
        switch (kind) {
            case "Mutex": return new InterProcessMutex(client, path);
            case "Read": return new InterProcessReadWriteLock(client, path).readLock();
            case "Write": return new InterProcessReadWriteLock(client, path).writeLock();
            default: throw new IllegalArgumentException(kind);
        }
    }

    /** A candidate of a LeaderLatch or a LeaderSelector. */
    private static class Candidate {
        private final String name;
        private final LeaderLatch latch;
        private final LeaderSelector selector;
        private final CountDownLatch over = new CountDownLatch(1);

        Candidate(CuratorFramework client, String kind, String name, String path) {
            this.name = name;
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

    public static void main(String[] args) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(args[0], new RetryForever(100));
        client.start();
        Map<String, InterProcessLock> locks = new HashMap<>();
        Map<String, Candidate> candidates = new HashMap<>();
        Map<String, ExecutorService> threads = new HashMap<>();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] word = line.trim().split(" +");
            String name = word[1];
            if (word[0].equals("new") && (word[2].equals("Latch") || word[2].equals("Selector"))) {
                candidates.put(name, new Candidate(client, word[2], name, word[3]));
                threads.put(name, Executors.newSingleThreadExecutor());
                say("made " + name);
                continue;
            }
            if (candidates.containsKey(name)) {
                in(threads.get(name), () -> candidates.get(name).obey(word[0]));
                continue;
            }
            if (word[0].equals("new")) {
                locks.put(name, make(client, word[2], word[3]));
                threads.put(name, Executors.newSingleThreadExecutor());
                say("made " + name);
                continue;
            }
            InterProcessLock lock = locks.get(name);
            in(threads.get(name), () -> {
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
            });
        }
        client.close();
        System.exit(0);
    }
}
