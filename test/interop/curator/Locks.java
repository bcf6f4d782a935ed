import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.Revoker;

/** Scenarios of locks and semaphores. */
final class Locks {
    private static final String PATH = "/lock";

    private Locks() {
    }

    static void add(Map<String, Stage.Play> plays) {
        plays.put("mutex", Locks::mutex);
        plays.put("mutex in turn", Locks::inTurn);
        plays.put("mutex whose holder dies", Locks::holderDies);
        plays.put("mutex contended", Locks::contended);
        plays.put("mutex revoked", Locks::revoked);
        plays.put("read-write lock", Locks::readWrite);
        plays.put("semaphore", Locks::semaphore);
        plays.put("semaphore mutex", Locks::semaphoreMutex);
        plays.put("multi-lock", Locks::multiLock);
    }

    private static boolean tryLock(InterProcessLock l) throws Exception {
        return l.acquire(Stage.MOMENT, TimeUnit.MILLISECONDS);
    }

    private static Void lock(InterProcessLock l) throws Exception {
        l.acquire();
        return null;
    }

    private static Void unlock(InterProcessLock l) throws Exception {
        l.release();
        return null;
    }

    /** Waits until so many are in the line at a path. */
    private static void line(Stage s, String path, int n) throws Exception {
        s.await(n + " at " + path, () -> s.a.checkExists().forPath(path) != null
            && s.a.getChildren().forPath(path).size() == n);
    }

    private static void mutex(Stage s) throws Exception {
        InterProcessMutex one = new InterProcessMutex(s.a, PATH);
        InterProcessMutex two = new InterProcessMutex(s.b, PATH);
        Stage.Actor other = s.actor();
        s.say(tryLock(one), other.does(() -> tryLock(two)));
        s.say("again", tryLock(one), one.isOwnedByCurrentThread(), two.isAcquiredInThisProcess());
        for (String p : one.getParticipantNodes()) {
            s.say(Stage.plain(p));
        }
        one.release();
        s.say(other.does(() -> tryLock(two)));
        one.release();
        s.say(other.does(() -> tryLock(two)), tryLock(one));
        other.does(() -> unlock(two));
        try {
            one.release();
        } catch (IllegalMonitorStateException e) {
            s.say("not held");
        }
    }

    private static void inTurn(Stage s) throws Exception {
        InterProcessMutex first = new InterProcessMutex(s.a, PATH);
        first.acquire();
        List<String> order = new ArrayList<>();
        List<Future<Void>> all = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            String name = "waiter " + i;
            InterProcessMutex m = new InterProcessMutex(i % 2 == 0 ? s.b : s.a, PATH);
            all.add(s.actor().begin(() -> {
                m.acquire();
                synchronized (order) {
                    order.add(name);
                }
                m.release();
                return null;
            }));
            line(s, PATH, i + 2);
        }
        first.release();
        for (Future<Void> f : all) {
            Stage.done(f);
        }
        s.say(order);
    }

    private static void holderDies(Stage s) throws Exception {
        CuratorFramework c = s.client();
        CuratorFramework d = s.client();
        InterProcessMutex one = new InterProcessMutex(c, PATH);
        InterProcessMutex two = new InterProcessMutex(d, PATH);
        InterProcessMutex three = new InterProcessMutex(s.a, PATH);
        one.acquire();
        Stage.Actor dying = s.actor();
        dying.begin(() -> lock(two));
        line(s, PATH, 2);
        Future<Void> last = s.actor().begin(() -> lock(three));
        line(s, PATH, 3);
        d.close();
        line(s, PATH, 2);
        s.say("one that waited is dead; the next waits", Stage.waits(last));
        s.expire(c);
        Stage.done(last);
        s.say("the holder is dead; the next has it");
    }

    private static void contended(Stage s) throws Exception {
        AtomicInteger inside = new AtomicInteger();
        AtomicInteger clashes = new AtomicInteger();
        AtomicInteger turns = new AtomicInteger();
        List<Future<Void>> all = new ArrayList<>();
        for (int i = 0; i < 6; i++) {
            InterProcessMutex m = new InterProcessMutex(i % 2 == 0 ? s.a : s.b, PATH);
            all.add(s.actor().begin(() -> {
                for (int j = 0; j < 10; j++) {
                    m.acquire();
                    if (inside.incrementAndGet() != 1) {
                        clashes.incrementAndGet();
                    }
                    turns.incrementAndGet();
                    inside.decrementAndGet();
                    m.release();
                }
                return null;
            }));
        }
        for (Future<Void> f : all) {
            Stage.done(f);
        }
        s.say(turns, "turns", clashes, "clashes");
    }

    private static void revoked(Stage s) throws Exception {
        InterProcessMutex one = new InterProcessMutex(s.a, PATH);
        AtomicInteger asked = new AtomicInteger();
        one.makeRevocable(l -> asked.incrementAndGet());
        one.acquire();
        Revoker.attemptRevoke(s.b, one.getParticipantNodes().iterator().next());
        s.see("asked", () -> asked.get() == 1);
        one.release();
    }

    private static void readWrite(Stage s) throws Exception {
        InterProcessReadWriteLock one = new InterProcessReadWriteLock(s.a, PATH);
        InterProcessReadWriteLock two = new InterProcessReadWriteLock(s.b, PATH);
        Stage.Actor other = s.actor();
        s.say("readers", tryLock(one.readLock()), other.does(() -> tryLock(two.readLock())));
        s.say("a writer beside them", s.actor().does(() -> tryLock(new InterProcessReadWriteLock(s.a, PATH).writeLock())));
        for (String p : one.readLock().getParticipantNodes()) {
            s.say(Stage.plain(p).replaceAll("\\d+$", "N"));
        }
        Future<Void> writer = other.begin(() -> {
            two.readLock().release();
            return lock(two.writeLock());
        });
        line(s, PATH, 2);
        s.say("the writer waits", Stage.waits(writer));
        s.say("a reader behind it", s.actor().does(() -> tryLock(new InterProcessReadWriteLock(s.a, PATH).readLock())));
        one.readLock().release();
        Stage.done(writer);
        s.say("the writer has it", tryLock(one.readLock()));
        s.say("it reads as well", other.does(() -> tryLock(two.readLock())));
        other.does(() -> unlock(two.writeLock()));
        s.say("and only reads now", tryLock(one.readLock()));
        other.does(() -> unlock(two.readLock()));
        s.say("a reader does not become a writer", tryLock(one.writeLock()));
        one.readLock().release();
    }

    private static void semaphore(Stage s) throws Exception {
        InterProcessSemaphoreV2 one = new InterProcessSemaphoreV2(s.a, PATH, 2);
        InterProcessSemaphoreV2 two = new InterProcessSemaphoreV2(s.b, PATH, 2);
        one.setNodeData(Stage.bytes("holder"));
        Lease first = one.acquire();
        Lease second = two.acquire();
        s.say(first.getData(), Stage.plain(first.getNodeName()), second.getData().length > 0);
        s.say("a third", one.acquire(Stage.MOMENT, TimeUnit.MILLISECONDS));
        s.say(one.getParticipantNodes().size());
        Future<Lease> third = s.actor().begin(one::acquire);
        s.say("waits", Stage.waits(third));
        two.returnLease(second);
        s.say("then has it", Stage.text(Stage.done(third).getData()));
        one.returnAll(List.of(first, Stage.done(third)));
        Collection<Lease> both = two.acquire(2, Stage.PATIENCE, TimeUnit.MILLISECONDS);
        s.say(both.size(), one.acquire(1, Stage.MOMENT, TimeUnit.MILLISECONDS));
        two.returnAll(both);
        CuratorFramework c = s.client();
        new InterProcessSemaphoreV2(c, PATH, 2).acquire(2);
        s.say("all lent", one.acquire(Stage.MOMENT, TimeUnit.MILLISECONDS));
        c.close();
        both = one.acquire(2, Stage.PATIENCE, TimeUnit.MILLISECONDS);
        s.say("free at the end of a session", both.size());
        one.returnAll(both);
    }

    private static void semaphoreMutex(Stage s) throws Exception {
        InterProcessSemaphoreMutex one = new InterProcessSemaphoreMutex(s.a, PATH);
        InterProcessSemaphoreMutex two = new InterProcessSemaphoreMutex(s.b, PATH);
        s.say(tryLock(one), tryLock(one), tryLock(two));
        one.release();
        s.say(tryLock(two));
        two.release();
    }

    private static void multiLock(Stage s) throws Exception {
        InterProcessMultiLock both = new InterProcessMultiLock(s.a, List.of("/one", "/two"));
        InterProcessMutex two = new InterProcessMutex(s.b, "/two");
        InterProcessMutex one = new InterProcessMutex(s.b, "/one");
        Stage.Actor other = s.actor();
        s.say(other.does(() -> tryLock(two)), both.acquire(Stage.MOMENT, TimeUnit.MILLISECONDS));
        s.say("nothing is left", other.does(() -> tryLock(one)));
        other.does(() -> unlock(one));
        other.does(() -> unlock(two));
        s.say(both.acquire(Stage.PATIENCE, TimeUnit.MILLISECONDS), other.does(() -> tryLock(one)), other.does(() -> tryLock(two)));
        both.release();
    }
}
