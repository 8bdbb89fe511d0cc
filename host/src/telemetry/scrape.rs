//! Metrics as text, worked out at the moment somebody asks.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeGaugeValue, NoLabelSet, prometheus_text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::Registry;

use super::counters::{Counters, Durations, Operation, PluginCounters};
use super::metric_names::{self as names, Metric};
use crate::model::{InstanceState, InstanceStatus, RestoreStatus, TaskState};

/// Content type of [`scrape`]'s text.
pub const CONTENT_TYPE: &str = prometheus_text::CONTENT_TYPE;

/// All metrics in Prometheus' text form.
pub fn scrape(status: InstanceStatus, ready: bool, counters: Arc<Counters>) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Scrape { status, ready, counters }));
    let mut text = String::new();
    prometheus_text::encode(&mut text, &registry)?;
    Ok(text)
}

/// Labels of one sample.
type Labels<'a> = Vec<(&'static str, &'a str)>;

/// What one scrape renders.
#[derive(Debug)]
struct Scrape {
    /// The instance, as it is now.
    status: InstanceStatus,
    /// What `/readyz` would say.
    ready: bool,
    /// What the data path counted.
    counters: Arc<Counters>,
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let out = &mut encoder;
        self.instance(out)?;
        self.restore(out)?;
        self.standbys(out)?;
        self.records(out)?;
        self.stores(out)?;
        self.commits(out)?;
        self.memory(out)?;
        self.plugins(out)
    }
}

impl Scrape {
    /// The instance and its tasks.
    fn instance(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        gauges(out, names::BUILD_INFO, [(vec![("version", env!("CARGO_PKG_VERSION"))], 1_i64)])?;
        let states = [
            (InstanceState::Starting, "starting"),
            (InstanceState::Rebalancing, "rebalancing"),
            (InstanceState::Restoring, "restoring"),
            (InstanceState::Running, "running"),
            (InstanceState::Failed, "failed"),
            (InstanceState::Stopping, "stopping"),
        ];
        let is = |state| i64::from(self.status.state == state);
        gauges(out, names::STATE, states.map(|(state, label)| (vec![("state", label)], is(state))))?;
        gauge(out, names::READY, i64::from(self.ready))?;
        gauge(out, names::GENERATION, self.status.generation.0)?;
        let states = [
            (TaskState::Created, "created"),
            (TaskState::Restoring, "restoring"),
            (TaskState::WaitingForPeers, "waiting-for-peers"),
            (TaskState::Running, "running"),
            (TaskState::Failed, "failed"),
        ];
        let in_state = |state| self.status.tasks.iter().filter(|task| task.state == state).count();
        gauges(out, names::TASKS, states.map(|(state, label)| (vec![("state", label)], in_state(state))))?;
        gauge(out, names::BARRIER_OPEN, i64::from(barrier_open(&self.status)))?;
        counters(out, names::REBALANCES, [(vec![], self.counters.rebalances.get())])
    }

    /// How far the restore is, by store.
    fn restore(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        counters(out, names::RESTORE_RECORDS, [(vec![], self.counters.restored.get())])?;
        let mut stores: BTreeMap<&str, (i64, f64)> = BTreeMap::new();
        for part in restores(&self.status) {
            let (remaining, seconds) = stores.entry(&part.store).or_default();
            if !part.done {
                *remaining += part.end.map_or(0, |end| (end - part.position).max(0));
                *seconds = seconds.max(part.seconds_left.unwrap_or_default());
            }
        }
        let remaining = stores.iter().map(|(store, (remaining, _))| (vec![("store", *store)], *remaining));
        gauges(out, names::RESTORE_REMAINING, remaining)?;
        let seconds = stores.iter().map(|(store, (_, seconds))| (vec![("store", *store)], *seconds));
        gauges(out, names::RESTORE_SECONDS_LEFT, seconds)
    }

    /// Standbys, and how far they are behind.
    fn standbys(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        gauge(out, names::STANDBYS, self.status.standbys.len())?;
        counters(out, names::STANDBY_RECORDS, [(vec![], self.counters.standby.get())])?;
        let mut lags: BTreeMap<&str, i64> = BTreeMap::new();
        for part in self.status.standbys.iter().flat_map(|standby| &standby.partitions) {
            *lags.entry(&part.store).or_default() += part.lag.unwrap_or_default();
        }
        gauges(out, names::STANDBY_LAG, lags.into_iter().map(|(store, lag)| (vec![("store", store)], lag)))
    }

    /// Inputs and what became of their records.
    fn records(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut lag: BTreeMap<&str, i64> = BTreeMap::new();
        let mut buffered: BTreeMap<&str, usize> = BTreeMap::new();
        for input in self.status.tasks.iter().flat_map(|task| &task.inputs) {
            *buffered.entry(&input.topic).or_default() += input.buffered;
            if let Some(records) = input.lag {
                *lag.entry(&input.topic).or_default() += records;
            }
        }
        gauges(out, names::SOURCE_LAG, lag.into_iter().map(|(topic, lag)| (vec![("topic", topic)], lag)))?;
        gauges(out, names::SOURCE_BUFFERED, buffered.into_iter().map(|(topic, n)| (vec![("topic", topic)], n)))?;
        counters(out, names::RECORDS_PROCESSED, [(vec![], self.counters.processed.get())])?;
        let dropped = &self.counters.dropped;
        let dropped = [
            ("null_key", &dropped.null_key),
            ("null_value", &dropped.null_value),
            ("no_row", &dropped.no_row),
            ("skipped", &dropped.skipped),
            ("refused", &dropped.refused),
        ];
        counters(out, names::RECORDS_DROPPED, dropped.map(|(reason, n)| (vec![("reason", reason)], n.get())))?;
        counters(out, names::DEAD_LETTERS, [(vec![], self.counters.dead_letters.get())])?;
        let lookups = self.counters.joins().flat_map(|(node, join)| {
            [("hit", &join.hit), ("miss", &join.miss), ("null_key", &join.null_key)]
                .map(|(result, n)| (vec![("node", node), ("result", result)], n.get()))
        });
        counters(out, names::JOIN_LOOKUPS, lookups)
    }

    /// What the stores hold.
    fn stores(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let label = |store| vec![("store", store)];
        let stores = &self.status.stores;
        gauges(out, names::STORE_ENTRIES, stores.iter().map(|s| (label(s.store.as_str()), s.entries)))?;
        gauges(out, names::STORE_PARTITIONS, stores.iter().map(|s| (label(s.store.as_str()), s.partitions.len())))
    }

    /// Commits of the stream threads.
    fn commits(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let commits = &self.counters.commits;
        histograms(out, names::COMMIT_DURATION, [(vec![], &commits.durations)])?;
        let outcomes = [("failed", &commits.failed), ("unknown", &commits.unknown)];
        counters(out, names::COMMIT_FAILURES, outcomes.map(|(outcome, n)| (vec![("outcome", outcome)], n.get())))
    }

    /// What memory is taken for.
    fn memory(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let memory = &self.status.memory;
        let used = memory.parts.iter().map(|part| (vec![("part", part.part.as_str())], part.used));
        gauges(out, names::MEMORY_USED, used)?;
        let limits = memory.parts.iter().map(|part| (vec![("part", part.part.as_str())], part.limit));
        gauges(out, names::MEMORY_LIMIT, limits.chain([(vec![("part", "all")], memory.limit)]))?;
        gauges(out, names::MEMORY_RESIDENT, memory.resident.map(|bytes| (vec![], bytes)))
    }

    /// Plugins: which are active, and how their calls go.
    fn plugins(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let active = self.status.plugins.iter().map(|plugin| {
            let digest = plugin.digest.get(..12).unwrap_or(&plugin.digest);
            (vec![("plugin", plugin.plugin.as_str()), ("version", plugin.version.as_str()), ("digest", digest)], 1_i64)
        });
        gauges(out, names::PLUGIN_INFO, active)?;
        // Operations that a plugin has no function for would only be noise.
        let operations: Vec<(Labels<'_>, &PluginCounters, Operation)> = self
            .counters
            .plugins()
            .flat_map(|(plugin, calls)| Operation::ALL.map(|op| (plugin, calls, op)))
            .filter(|(_, calls, op)| calls.durations(*op).count() > 0)
            .map(|(plugin, calls, op)| (vec![("plugin", plugin), ("op", op.label())], calls, op))
            .collect();
        let durations = operations.iter().map(|(labels, calls, op)| (labels.clone(), calls.durations(*op)));
        histograms(out, names::PLUGIN_CALL_DURATION, durations)?;
        let records = operations.iter().map(|(labels, calls, op)| (labels.clone(), calls.records(*op)));
        counters(out, names::PLUGIN_RECORDS, records)?;
        let failures = self.counters.plugins().flat_map(|(plugin, calls)| {
            PluginCounters::FAILURES
                .map(|(kind, label)| (vec![("plugin", plugin), ("kind", label)], calls.failures(kind).get()))
        });
        counters(out, names::PLUGIN_FAILURES, failures)?;
        counters(out, names::PLUGIN_SWAPS, [(vec![], self.counters.swaps.get())])
    }
}

/// Whether nothing waits for tables any more.
fn barrier_open(status: &InstanceStatus) -> bool {
    let begun = !matches!(status.state, InstanceState::Starting | InstanceState::Rebalancing);
    let waits = |state| matches!(state, TaskState::Created | TaskState::Restoring | TaskState::WaitingForPeers);
    begun && !status.tasks.iter().any(|task| waits(task.state)) && status.global_tables.iter().all(|t| t.restored)
}

/// Every table and changelog partition that this instance reads.
fn restores(status: &InstanceStatus) -> impl Iterator<Item = &RestoreStatus> {
    let tasks = status.tasks.iter().flat_map(|task| &task.restore);
    tasks.chain(status.global_tables.iter().flat_map(|table| &table.restore))
}

/// One gauge without labels.
fn gauge(out: &mut DescriptorEncoder<'_>, metric: Metric, value: impl EncodeGaugeValue) -> fmt::Result {
    gauges(out, metric, [(vec![], value)])
}

/// A gauge's samples.
fn gauges<'a, V: EncodeGaugeValue>(
    out: &mut DescriptorEncoder<'_>,
    metric: Metric,
    samples: impl IntoIterator<Item = (Labels<'a>, V)>,
) -> fmt::Result {
    let mut family = out.encode_descriptor(metric.name, metric.help, None, MetricType::Gauge)?;
    for (labels, value) in samples {
        family.encode_family(&labels)?.encode_gauge(&value)?;
    }
    Ok(())
}

/// A counter's samples.
fn counters<'a>(
    out: &mut DescriptorEncoder<'_>,
    metric: Metric,
    samples: impl IntoIterator<Item = (Labels<'a>, u64)>,
) -> fmt::Result {
    // The encoder puts the suffix back.
    let name = metric.name.trim_end_matches("_total");
    let mut family = out.encode_descriptor(name, metric.help, None, MetricType::Counter)?;
    for (labels, value) in samples {
        family.encode_family(&labels)?.encode_counter(&value, None::<&Exemplar<NoLabelSet, u64>>)?;
    }
    Ok(())
}

/// A histogram's samples.
fn histograms<'a>(
    out: &mut DescriptorEncoder<'_>,
    metric: Metric,
    samples: impl IntoIterator<Item = (Labels<'a>, &'a Durations)>,
) -> fmt::Result {
    let mut family = out.encode_descriptor(metric.name, metric.help, None, MetricType::Histogram)?;
    for (labels, durations) in samples {
        let buckets = durations.buckets();
        let count = buckets.iter().map(|(_, n)| n).sum();
        family.encode_family(&labels)?.encode_histogram::<NoLabelSet>(durations.seconds(), count, &buckets, None)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::{
        CallFailureKind, Generation, MemoryPartStatus, MemoryStatus, PartitionStatus, PluginStatus, StandbyPartition,
        StandbyStatus, StoreStatus, TableStatus, TaskStatus,
    };

    /// An instance in mid-restore.
    fn status() -> InstanceStatus {
        let restore = |store: &str, partition, position, done: bool| RestoreStatus {
            store: store.to_owned(),
            topic: store.to_owned(),
            partition,
            end: Some(100),
            position,
            seconds_left: (!done).then_some(1.5),
            done,
            ..RestoreStatus::default()
        };
        let input = |lag| PartitionStatus { topic: "in".to_owned(), lag, buffered: 2, ..PartitionStatus::default() };
        let task = |state, restore, lag| TaskStatus {
            task: "0_0".to_owned(),
            thread: 0,
            state,
            reason: String::new(),
            restore: vec![restore],
            inputs: vec![input(lag)],
            processed: 0,
            dropped: BTreeMap::new(),
            generation: Generation(3),
        };
        InstanceStatus {
            state: InstanceState::Restoring,
            generation: Generation(3),
            tasks: vec![
                task(TaskState::Running, restore("t", 0, 100, true), Some(7)),
                task(TaskState::Restoring, restore("t", 1, 40, false), Some(5)),
                task(TaskState::Restoring, restore("t", 2, 90, false), None),
            ],
            standbys: [Some(3), Some(4), None]
                .map(|lag| {
                    let part = StandbyPartition { store: "t".to_owned(), lag, ..StandbyPartition::default() };
                    StandbyStatus { partitions: vec![part], ..StandbyStatus::default() }
                })
                .to_vec(),
            global_tables: vec![TableStatus { table: "g".to_owned(), restored: true, ..TableStatus::default() }],
            plugins: vec![PluginStatus {
                plugin: "p".to_owned(),
                digest: "0123456789abcdef".to_owned(),
                version: "1.0 \"quoted\"".to_owned(),
                ..PluginStatus::default()
            }],
            stores: vec![StoreStatus {
                store: "t".to_owned(),
                partitions: vec![0, 1, 2],
                entries: 42,
                ..StoreStatus::default()
            }],
            memory: MemoryStatus {
                limit: 1000,
                resident: Some(700),
                parts: vec![MemoryPartStatus { part: "overlays".to_owned(), used: 20, limit: 50 }],
            },
            ..InstanceStatus::default()
        }
    }

    /// A scrape of [`status`] with something in every counter.
    fn text() -> String {
        let counters = Counters::new(["j"], ["p"]);
        counters.processed.add(11);
        counters.standby.add(6);
        counters.dropped.no_row.add(2);
        counters.join("j").hit.add(9);
        counters.commits.durations.observe(Duration::from_millis(3));
        counters.plugin("p").called(Operation::Fold, 256, Duration::from_micros(90));
        counters.plugin("p").failures(CallFailureKind::Timeout).inc();
        scrape(status(), false, Arc::new(counters)).unwrap()
    }

    #[test]
    fn each_sample_says_what_the_status_says() {
        let text = text();
        for line in [
            r#"weir_state{state="restoring"} 1"#,
            r#"weir_state{state="running"} 0"#,
            "weir_ready 0",
            "weir_plugin_generation 3",
            "weir_barrier_open 0",
            r#"weir_tasks{state="restoring"} 2"#,
            r#"weir_restore_remaining_records{store="t"} 70"#,
            r#"weir_restore_left_seconds{store="t"} 1.5"#,
            "weir_standby_tasks 3",
            "weir_standby_records_total 6",
            r#"weir_standby_lag_records{store="t"} 7"#,
            r#"weir_source_lag_records{topic="in"} 12"#,
            r#"weir_source_buffered_records{topic="in"} 6"#,
            "weir_records_processed_total 11",
            r#"weir_records_dropped_total{reason="no_row"} 2"#,
            r#"weir_join_lookups_total{node="j",result="hit"} 9"#,
            r#"weir_store_entries{store="t"} 42"#,
            r#"weir_store_partitions{store="t"} 3"#,
            r#"weir_memory_used_bytes{part="overlays"} 20"#,
            r#"weir_memory_limit_bytes{part="overlays"} 50"#,
            r#"weir_memory_limit_bytes{part="all"} 1000"#,
            "weir_memory_resident_bytes 700",
            r#"weir_commit_duration_seconds_bucket{le="0.005"} 1"#,
            r#"weir_commit_duration_seconds_bucket{le="+Inf"} 1"#,
            "weir_commit_duration_seconds_count 1",
            r#"weir_plugin_info{plugin="p",version="1.0 \"quoted\"",digest="0123456789ab"} 1"#,
            r#"weir_plugin_call_duration_seconds_count{plugin="p",op="fold"} 1"#,
            r#"weir_plugin_records_total{plugin="p",op="fold"} 256"#,
            r#"weir_plugin_failures_total{plugin="p",kind="timeout"} 1"#,
        ] {
            assert!(text.lines().any(|l| l.replace(", ", ",") == line), "no line {line} in\n{text}");
        }
    }

    #[test]
    fn every_named_metric_is_there_with_the_type_that_its_name_promises() {
        let text = text();
        for metric in names::ALL {
            assert!(metric.name.starts_with("weir_") && metric.help.ends_with('.'), "{metric:?}");
            let kind = text
                .lines()
                .find_map(|line| line.strip_prefix(&format!("# TYPE {} ", metric.name)))
                .unwrap_or_else(|| panic!("{} is not in\n{text}", metric.name));
            assert_eq!(metric.name.ends_with("_total"), kind == "counter", "{} is a {kind}", metric.name);
        }
    }

    #[test]
    fn the_barrier_is_open_once_nobody_waits() {
        let mut status = status();
        assert!(!barrier_open(&status));
        status.tasks.truncate(1);
        assert!(barrier_open(&status));
        status.global_tables[0].restored = false;
        assert!(!barrier_open(&status));
        assert!(!barrier_open(&InstanceStatus::default()), "nothing has begun");
    }
}
