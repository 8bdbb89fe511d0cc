//! Every way a restore ends, or must not.

use super::*;

/// What happens to a restore.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// The broker says: begin, end.
    Log(i64, i64),
    /// Applied up to this position, so many records.
    Applied(i64, u64),
    /// End of partition at this offset.
    Eof(i64),
}

use Event::{Applied, Eof, Log as LogRange};

/// A restore that began at `start` when its clock showed 10 s, after these events.
fn after(start: i64, events: &[Event]) -> Progress {
    let mut progress = Progress::new("orders", TopicPartition::new("t", 3), start, Duration::from_secs(10));
    for event in events {
        match *event {
            LogRange(begin, end) => progress.log_range(begin, end),
            Applied(position, records) => progress.applied(position, records),
            Eof(offset) => progress.end_of_partition(offset),
        }
    }
    progress
}

/// Checks what a restore from `start` waits for after these events; `None`: it is done.
fn check(start: i64, events: &[Event], waits_for: Option<&str>) {
    let progress = after(start, events);
    let status = progress.status(Duration::from_secs(20));
    assert_eq!(status.waits_for, waits_for.unwrap_or_default(), "{start} {events:?}");
    assert_eq!((progress.done(), status.done), (waits_for.is_none(), waits_for.is_none()), "{start} {events:?}");
}

#[test]
fn nothing_is_done_before_the_broker_answered() {
    let unknown = Some("waits for the broker to say where t-3 ends");
    check(0, &[], unknown);
    check(0, &[Applied(10, 10)], unknown);
    check(0, &[Eof(10)], unknown);
    check(0, &[Applied(10, 10), LogRange(0, 10)], None);
    check(0, &[Eof(10), LogRange(0, 10)], None);
}

#[test]
fn an_empty_log_is_done_at_once() {
    check(0, &[LogRange(0, 0)], None);
    check(7, &[LogRange(7, 7)], None);
    check(7, &[LogRange(3, 7)], None);
}

#[test]
fn everything_below_the_end_must_be_applied() {
    check(0, &[LogRange(0, 10)], Some("reads t-3: 10 of offsets 0 to 10 left"));
    check(2, &[LogRange(0, 10), Applied(9, 7)], Some("reads t-3: 1 of offsets 2 to 10 left"));
    check(2, &[LogRange(0, 10), Applied(10, 8)], None);
    // More came meanwhile: what was there at first is what counts.
    check(2, &[LogRange(0, 10), Applied(8, 6), Applied(13, 5)], None);
    check(2, &[LogRange(0, 10), LogRange(0, 20), Applied(9, 7)], Some("reads t-3: 1 of offsets 2 to 10 left"));
    check(2, &[LogRange(0, 10), LogRange(0, 20), Applied(10, 8)], None);
    // A position never goes back.
    check(0, &[LogRange(0, 10), Applied(8, 8), Applied(5, 0)], Some("reads t-3: 2 of offsets 0 to 10 left"));
}

#[test]
fn a_tail_without_records_ends_with_the_end_of_the_partition() {
    // Markers, aborted data or compacted batches behind the last record.
    check(0, &[LogRange(0, 10), Applied(6, 6)], Some("reads t-3: 4 of offsets 0 to 10 left"));
    check(0, &[LogRange(0, 10), Applied(6, 6), Eof(10)], None);
    check(0, &[LogRange(0, 10), Eof(10)], None);
    check(0, &[LogRange(0, 10), Eof(12)], None);
}

#[test]
fn an_open_transaction_is_waited_for_and_named() {
    let open = Some("waits for an open transaction at offset 6 (last stable offset); end is 10");
    check(0, &[LogRange(0, 10), Applied(6, 6), Eof(6)], open);
    check(0, &[LogRange(0, 10), Applied(4, 4), Eof(6)], open);
    check(6, &[LogRange(0, 10), Eof(6)], open);
    check(0, &[Eof(6), LogRange(0, 10)], open);
    check(0, &[LogRange(0, 10), Eof(6), LogRange(0, 30)], open);
    // It commits: records come, and the end; or it aborts: the end alone.
    check(0, &[LogRange(0, 10), Eof(6), Applied(8, 2)], Some("reads t-3: 2 of offsets 0 to 10 left"));
    check(0, &[LogRange(0, 10), Eof(6), Applied(8, 2), Eof(10)], None);
    check(0, &[LogRange(0, 10), Eof(6), Eof(10)], None);
    // Another one behind it.
    let next = Some("waits for an open transaction at offset 8 (last stable offset); end is 10");
    check(0, &[LogRange(0, 10), Eof(6), Eof(8)], next);
}

#[test]
fn a_log_that_shrinks_is_not_waited_for() {
    check(0, &[LogRange(0, 10), Applied(6, 6), LogRange(0, 8)], Some("reads t-3: 2 of offsets 0 to 8 left"));
    check(0, &[LogRange(0, 10), Applied(6, 6), LogRange(0, 6)], None);
    check(0, &[LogRange(0, 10), Applied(6, 6), LogRange(0, 3)], None);
    check(0, &[LogRange(0, 10), LogRange(0, 0)], None);
    check(0, &[LogRange(0, 10), LogRange(0, 5), LogRange(0, 9)], Some("reads t-3: 9 of offsets 0 to 9 left"));
    check(0, &[LogRange(0, 10), LogRange(0, 5), LogRange(0, 99)], Some("reads t-3: 10 of offsets 0 to 10 left"));
}

#[test]
fn a_begin_at_or_above_the_target_ends_it() {
    check(0, &[LogRange(0, 10), LogRange(9, 30)], Some("reads t-3: 10 of offsets 0 to 10 left"));
    check(0, &[LogRange(0, 10), LogRange(10, 30)], None);
    check(0, &[LogRange(0, 10), LogRange(25, 30)], None);
    check(0, &[LogRange(0, 10), LogRange(4, 4)], None);
}

#[test]
fn done_stays_done() {
    check(0, &[LogRange(0, 10), Applied(10, 10), LogRange(0, 50)], None);
    check(0, &[LogRange(0, 10), LogRange(0, 0), LogRange(0, 10)], None);
    check(0, &[LogRange(0, 10), Eof(10), LogRange(0, 50), Eof(12)], None);
}

#[test]
fn the_position_is_what_was_applied_and_never_the_target() {
    assert_eq!(after(4, &[]).position(), 4);
    assert_eq!(after(4, &[LogRange(0, 10)]).position(), 4);
    assert_eq!(after(4, &[LogRange(0, 10), Applied(7, 1)]).position(), 7);
    assert_eq!(after(4, &[LogRange(0, 10), LogRange(12, 12)]).position(), 4);
    assert_eq!(after(4, &[LogRange(0, 10), Applied(10, 1), Applied(15, 5)]).position(), 15);
}

#[test]
fn status_has_rate_and_time_left() {
    let progress = after(100, &[LogRange(0, 400), Applied(200, 50)]);
    let status = progress.status(Duration::from_secs(20));
    assert_eq!((status.store.as_str(), status.topic.as_str(), status.partition), ("orders", "t", 3));
    assert_eq!((status.start, status.position, status.end, status.records), (100, 200, Some(400), 50));
    // 50 records and 100 offsets in 10 s; 200 offsets left.
    assert_eq!((status.rate, status.seconds_left), (5.0, Some(20.0)));

    let at_once = progress.status(Duration::from_secs(10));
    assert_eq!((at_once.rate, at_once.seconds_left), (0.0, None));
    let before = progress.status(Duration::from_secs(5));
    assert_eq!((before.rate, before.seconds_left), (0.0, None));
    let unknown = after(0, &[Applied(10, 10)]).status(Duration::from_secs(20));
    assert_eq!((unknown.end, unknown.rate, unknown.seconds_left), (None, 1.0, None));
    let stuck = after(0, &[LogRange(0, 10)]).status(Duration::from_secs(20));
    assert_eq!((stuck.rate, stuck.seconds_left), (0.0, None));
    // Live reading after the restore neither counts nor has a rate.
    let done = after(0, &[LogRange(0, 10), Applied(12, 12), Applied(20, 8)]).status(Duration::from_secs(20));
    assert_eq!((done.records, done.position, done.rate, done.seconds_left), (12, 20, 0.0, None));
}

/// All logs of up to five offsets, each with a record or without one that a reader sees, read from every start, with every last
/// stable offset: a restore is done exactly when no visible record below the target is missing and none can appear any more.
#[test]
fn every_small_log_ends_when_it_should() {
    for end in 0..=5i64 {
        for visible in 0..1u32 << end {
            for begin in 0..=end {
                for start in begin..=end {
                    for stable in start..=end {
                        read_log(begin, end, start, stable, |offset| visible >> offset & 1 == 1);
                    }
                }
            }
        }
    }
}

/// Reads a log as a consumer would, first up to the last stable offset, then up to the end, checking after each step.
fn read_log(begin: i64, end: i64, start: i64, stable: i64, visible: impl Fn(i64) -> bool) {
    let mut progress = after(start, &[LogRange(begin, end)]);
    let case = format!("begin {begin} end {end} start {start} stable {stable}");
    let nothing_to_read = start >= end || begin >= end;
    assert_eq!(progress.done(), nothing_to_read, "{case}");
    for (from, to) in [(start, stable), (stable, end)] {
        for offset in (from..to).filter(|offset| visible(*offset)) {
            progress.applied(offset + 1, 1);
            assert_eq!(progress.done(), nothing_to_read || offset + 1 >= end, "{case} offset {offset}");
            assert_eq!(progress.position(), offset + 1, "{case}");
        }
        progress.end_of_partition(to);
        assert_eq!(progress.done(), to >= end, "{case} end of partition {to}");
        assert_eq!(progress.position(), to, "{case}");
    }
}
