import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.function.BiConsumer;
import org.apache.zookeeper.metrics.Counter;
import org.apache.zookeeper.metrics.CounterSet;
import org.apache.zookeeper.metrics.Gauge;
import org.apache.zookeeper.metrics.GaugeSet;
import org.apache.zookeeper.metrics.MetricsContext;
import org.apache.zookeeper.metrics.MetricsProvider;
import org.apache.zookeeper.metrics.Summary;
import org.apache.zookeeper.metrics.SummarySet;

/**
 * A provider of metrics that keeps no values: the word mntr prints what the server has
 * registered with it, the name and the type of each metric. Apache's exporter for Prometheus
 * registers the same names with the same types; no Debian package has it.
 */
public class MetricNames implements MetricsProvider, MetricsContext {
    private final Map<String, String> types = new ConcurrentSkipListMap<>();

    public void configure(Properties ignored) { }

    public void start() { }

    public MetricsContext getRootContext() {
        return this;
    }

    public void stop() { }

    public void dump(BiConsumer<String, Object> sink) {
        types.forEach(sink::accept);
    }

    public void resetAllValues() { }

    public MetricsContext getContext(String name) {
        return this;
    }

    public Counter getCounter(String name) {
        types.put(name, "counter");
        return new Counter() {
            public void add(long n) { }

            public long get() {
                return 0;
            }
        };
    }

    public CounterSet getCounterSet(String name) {
        types.put(name, "counter set");
        return (key, n) -> { };
    }

    public void registerGauge(String name, Gauge gauge) {
        types.put(name, "gauge");
    }

    public void unregisterGauge(String name) {
        types.remove(name);
    }

    public void registerGaugeSet(String name, GaugeSet set) {
        types.put(name, "gauge set");
    }

    public void unregisterGaugeSet(String name) {
        types.remove(name);
    }

    public Summary getSummary(String name, DetailLevel level) {
        types.put(name, summary(level));
        return v -> { };
    }

    public SummarySet getSummarySet(String name, DetailLevel level) {
        types.put(name, summary(level) + " set");
        return (key, v) -> { };
    }

    private static String summary(DetailLevel level) {
        return level == DetailLevel.BASIC ? "summary 0.5" : "summary 0.5 0.9 0.99";
    }
}
