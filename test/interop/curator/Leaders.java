import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.leader.Participant;

/** Scenarios of elections. */
final class Leaders {
    private static final String PATH = "/leader";

    private Leaders() {
    }

    static void add(Map<String, Stage.Play> plays) {
        plays.put("leader latch", Leaders::latch);
        plays.put("leader latch of an ended session", Leaders::latchExpires);
        plays.put("leader selector", Leaders::selector);
        plays.put("leader selector in turn", Leaders::requeue);
    }

    private static String show(java.util.Collection<Participant> all) {
        return all.stream().map(p -> p.getId() + (p.isLeader() ? " leads" : "")).collect(Collectors.joining(", "));
    }

    private static LeaderLatch join(Stage s, CuratorFramework c, String id, int place) throws Exception {
        LeaderLatch l = s.use(new LeaderLatch(c, PATH, id));
        l.addListener(new LeaderLatchListener() {
            @Override
            public void isLeader() {
                s.say(id, "is told that it leads");
            }

            @Override
            public void notLeader() {
                s.say(id, "is told that it does not lead");
            }
        });
        l.start();
        s.await(id + " in line", () -> l.getParticipants().stream().anyMatch(p -> p.getId().equals(id))
            && l.getParticipants().size() == place);
        return l;
    }

    private static void latch(Stage s) throws Exception {
        CuratorFramework c = s.client();
        LeaderLatch one = join(s, s.a, "one", 1);
        one.await();
        LeaderLatch two = join(s, s.b, "two", 2);
        LeaderLatch three = join(s, c, "three", 3);
        LeaderLatch four = join(s, s.a, "four", 4);
        s.say(show(four.getParticipants()));
        s.say(one.hasLeadership(), two.hasLeadership(), two.getLeader().getId(), two.await(Stage.MOMENT, TimeUnit.MILLISECONDS));
        one.close();
        two.await();
        s.await("all see it", () -> four.getLeader().getId().equals("two"));
        s.say(show(four.getParticipants()), one.getState());
        c.close();
        s.await("three is gone", () -> four.getParticipants().size() == 2);
        two.close(LeaderLatch.CloseMode.NOTIFY_LEADER);
        four.await();
        s.see("four leads", four::hasLeadership);
    }

    private static void latchExpires(Stage s) throws Exception {
        CuratorFramework c = s.client();
        LeaderLatch one = s.use(new LeaderLatch(c, PATH, "one"));
        one.start();
        one.await();
        LeaderLatch two = s.use(new LeaderLatch(s.a, PATH, "two"));
        two.start();
        s.await("both in line", () -> two.getParticipants().size() == 2);
        s.expire(c);
        two.await();
        s.see("the next leads", () -> two.hasLeadership() && !one.hasLeadership());
        s.see("who lost its session is in line again", () -> two.getParticipants().size() == 2
            && two.getLeader().getId().equals("two"));
        two.close();
        one.await();
        s.see("and leads again", one::hasLeadership);
    }

    /** One that leads until it is told to stop. */
    private static final class Candidate extends LeaderSelectorListenerAdapter {
        final LeaderSelector selector;
        final CountDownLatch over = new CountDownLatch(1);
        private final Stage stage;

        Candidate(Stage stage, CuratorFramework c, String id) {
            this.stage = stage;
            selector = stage.use(new LeaderSelector(c, PATH, this));
            selector.setId(id);
        }

        @Override
        public void takeLeadership(CuratorFramework c) throws Exception {
            stage.say(selector.getId(), "leads");
            try {
                over.await();
                stage.say(selector.getId(), "is done");
            } catch (InterruptedException e) {
                stage.say(selector.getId(), "is interrupted");
                throw e;
            }
        }
    }

    private static void selector(Stage s) throws Exception {
        List<Candidate> all = new ArrayList<>();
        for (String id : List.of("one", "two", "three")) {
            Candidate c = new Candidate(s, all.size() == 1 ? s.b : s.a, id);
            all.add(c);
            c.selector.start();
            s.await(id + " in line", () -> c.selector.getParticipants().size() == all.size());
        }
        LeaderSelector one = all.get(0).selector;
        s.await("one leads", one::hasLeadership);
        s.say(show(one.getParticipants()), one.getLeader().getId());
        all.get(0).over.countDown();
        s.await("two leads", all.get(1).selector::hasLeadership);
        all.get(1).selector.interruptLeadership();
        s.await("three leads", all.get(2).selector::hasLeadership);
        s.say("again", one.requeue());
        s.await("one in line", () -> one.getParticipants().size() == 2);
        s.say(show(all.get(2).selector.getParticipants()));
        all.get(2).over.countDown();
        s.see("all have led", () -> one.getParticipants().isEmpty());
    }

    private static void requeue(Stage s) throws Exception {
        List<String> order = new ArrayList<>();
        List<LeaderSelector> all = new ArrayList<>();
        for (String id : List.of("one", "two")) {
            LeaderSelector l = s.use(new LeaderSelector(id.equals("one") ? s.a : s.b, PATH, new LeaderSelectorListenerAdapter() {
                @Override
                public void takeLeadership(CuratorFramework c) throws Exception {
                    synchronized (order) {
                        order.add(id);
                    }
                    s.await("another in line", () -> all.size() == 2 && all.get(0).getParticipants().size() == 2);
                }
            }));
            l.setId(id);
            l.autoRequeue();
            l.start();
            s.await(id + " in line", () -> !l.getParticipants().isEmpty());
            all.add(l);
        }
        s.await("six turns", () -> {
            synchronized (order) {
                return order.size() >= 6;
            }
        });
        all.forEach(LeaderSelector::close);
        synchronized (order) {
            s.say(order.subList(0, 6));
        }
    }
}
