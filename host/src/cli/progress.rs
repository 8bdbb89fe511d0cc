//! Restore progress on stderr: a bar a store on a terminal, else a line every few seconds.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::screen::Screen;
use crate::model::{InstanceStatus, RestoreStatus};

/// How often bars move.
const FRAME: Duration = Duration::from_millis(200);
/// How often lines are written where there are no bars.
const LINE: Duration = Duration::from_secs(5);

/// How a bar looks.
const TEMPLATE: &str = "restoring {prefix:24} [{bar:30}] {percent:>3} %  {pos}/{len}  {msg}";

/// How far one store is, all partitions here together.
#[derive(Clone, Debug, Default, PartialEq)]
struct StoreProgress {
    /// Offsets applied since the restore began.
    done: u64,
    /// Offsets to apply, as far as is known.
    total: u64,
    /// Records a second.
    rate: f64,
    /// Seconds left of the slowest partition.
    seconds_left: Option<f64>,
    /// Whether nothing is left.
    finished: bool,
}

/// Offsets applied and offsets to apply of some partitions.
pub(super) fn offsets(parts: &[RestoreStatus]) -> (u64, u64) {
    let known = parts.iter().filter_map(|part| {
        let end = part.end?;
        let total = u64::try_from(end - part.start).unwrap_or(0);
        Some((u64::try_from(part.position - part.start).unwrap_or(0).min(total), total))
    });
    known.fold((0, 0), |(done, total), (d, t)| (done + d, total + t))
}

/// A share in whole percent, 100 only when all is done.
pub(super) fn percent(done: u64, total: u64) -> u64 {
    done.saturating_mul(100).checked_div(total).unwrap_or(0)
}

/// How far each store is.
fn stores(status: &InstanceStatus) -> BTreeMap<&str, StoreProgress> {
    let mut parts: BTreeMap<&str, Vec<RestoreStatus>> = BTreeMap::new();
    let tasks = status.tasks.iter().flat_map(|task| &task.restore);
    for part in tasks.chain(status.global_tables.iter().flat_map(|table| &table.restore)) {
        parts.entry(&part.store).or_default().push(part.clone());
    }
    let progress = |parts: &[RestoreStatus]| {
        let (done, total) = offsets(parts);
        let open = || parts.iter().filter(|part| !part.done);
        StoreProgress {
            done,
            total,
            rate: open().map(|part| part.rate).sum(),
            seconds_left: open().filter_map(|part| part.seconds_left).reduce(f64::max),
            finished: open().next().is_none(),
        }
    };
    parts.into_iter().map(|(store, parts)| (store, progress(&parts))).collect()
}

/// Shows the progress of restores; fed with one status after the other.
#[derive(Debug)]
pub(super) struct Progress {
    /// Where it is shown.
    screen: Screen,
    /// The bars that are drawn.
    bars: BTreeMap<String, ProgressBar>,
    /// When the last line was written.
    last_line: Option<Instant>,
    /// Whether a store was being restored when last looked.
    restoring: bool,
}

impl Progress {
    /// Nothing shown yet.
    pub(super) fn new(screen: Screen) -> Self {
        Self { screen, bars: BTreeMap::new(), last_line: None, restoring: false }
    }

    /// How long to wait until the next status.
    pub(super) fn interval(&self) -> Duration {
        if self.screen.bars().is_some() { FRAME } else { Duration::from_secs(1) }
    }

    /// Shows how far `status` is.
    pub(super) fn show(&mut self, status: &InstanceStatus, now: Instant) {
        let stores = stores(status);
        let restoring = stores.values().any(|store| !store.finished);
        if self.screen.bars().is_some() {
            self.draw(&stores);
        } else if restoring && self.last_line.is_none_or(|last| now.duration_since(last) >= LINE) {
            self.last_line = Some(now);
            write_lines(&stores);
        }
        if self.restoring && !restoring {
            tracing::info!("all stores are restored");
        }
        self.restoring = restoring;
    }

    /// Moves the bars.
    fn draw(&mut self, stores: &BTreeMap<&str, StoreProgress>) {
        let Some(multi) = self.screen.bars() else { return };
        self.bars.retain(|store, bar| {
            let goes_on = stores.get(store.as_str()).is_some_and(|store| !store.finished);
            if !goes_on {
                bar.finish_and_clear();
            }
            goes_on
        });
        for (name, store) in stores.iter().filter(|(_, store)| !store.finished) {
            let bar = self.bars.entry((*name).to_owned()).or_insert_with(|| {
                let bar = multi.add(ProgressBar::new(store.total));
                bar.set_style(style());
                bar.set_prefix((*name).to_owned());
                bar
            });
            bar.set_length(store.total);
            bar.set_position(store.done);
            bar.set_message(rate_and_time(store));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        for bar in self.bars.values() {
            bar.finish_and_clear();
        }
    }
}

/// The style of bars.
fn style() -> ProgressStyle {
    ProgressStyle::with_template(TEMPLATE).unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> ")
}

/// Rate and time left in words.
fn rate_and_time(store: &StoreProgress) -> String {
    match store.seconds_left {
        Some(left) => format!("{:.0} records/s, {left:.0} s left", store.rate),
        None => format!("{:.0} records/s", store.rate),
    }
}

/// A log line a store that is being restored.
fn write_lines(stores: &BTreeMap<&str, StoreProgress>) {
    for (name, store) in stores.iter().filter(|(_, store)| !store.finished) {
        let StoreProgress { done, total, .. } = store;
        let share = percent(*done, *total);
        tracing::info!("restoring {name}: {share} % ({done} of {total} offsets), {}", rate_and_time(store));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TableStatus;

    #[test]
    fn a_store_is_as_far_as_its_partitions_together() {
        let part = |store: &str, start, end, position, done, left| RestoreStatus {
            store: store.to_owned(),
            start,
            end,
            position,
            done,
            rate: 10.0,
            seconds_left: left,
            ..RestoreStatus::default()
        };
        let restore = vec![
            part("a", 100, Some(200), 150, false, Some(5.0)),
            part("a", 0, Some(100), 100, true, None),
            part("a", 7, None, 7, false, None),
            part("b", 0, Some(0), 0, true, None),
        ];
        let table = TableStatus { restore, ..TableStatus::default() };
        let status = InstanceStatus { global_tables: vec![table], ..InstanceStatus::default() };
        let stores = stores(&status);
        let expected = StoreProgress { done: 150, total: 200, rate: 20.0, seconds_left: Some(5.0), finished: false };
        assert_eq!(stores["a"], expected);
        assert_eq!(rate_and_time(&stores["a"]), "20 records/s, 5 s left");
        assert!(stores["b"].finished);
    }

    #[test]
    fn the_bars_template_is_one() {
        assert!(ProgressStyle::with_template(TEMPLATE).is_ok());
    }

    #[test]
    fn a_share_is_whole_only_when_all_is_done() {
        assert_eq!((percent(0, 0), percent(199, 200), percent(200, 200)), (0, 99, 100));
    }
}
