//! The project aggregate: the same records once without the barrier and once with it, and what is missing each time.

use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use serde::Serialize;

use super::Props;
use super::narration::number;
use super::outcome::{Outcome, Outputs};
use super::records::{self, COUNTED, PROJECTS, ROWS, STREAM_RECORDS, STREAMS, TABLES};
use super::stage::Stage;
use super::tries::{self, Try};
use crate::cli::Output;
use crate::cli::table::{Table, print, print_json};
use crate::model::InstanceStatus;
use crate::runtime::Handle;

/// The topology file.
pub(super) const TOPOLOGY: &str = include_str!("../../../../plugins/projekt/weir.toml");

/// How often the instance is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// How long nothing may happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// A run of the topology.
struct Run {
    /// What it is called.
    title: &'static str,
    /// What is different from the topology file, besides what each run has for itself.
    settings: &'static [(&'static str, &'static str)],
    /// Application and output topic.
    app: &'static str,
    /// Whether streams wait for the tables.
    waits: bool,
}

/// As Kafka Streams does it.
const WITHOUT: Run = Run {
    title: "1. Without the barrier: 8 stream threads, lowest timestamp first, as Kafka Streams does it",
    settings: &[("barrier.scope", "off"), ("app.time", "timestamp")],
    app: "demo-without-barrier",
    waits: false,
};
/// As Weir does it.
const WITH: Run = Run {
    title: "2. With the barrier: 8 stream threads, no project before the tables of all of them are full",
    settings: &[("barrier.scope", "instance"), ("app.time", "latest")],
    app: "demo-with-barrier",
    waits: true,
};

/// What both runs gave.
#[derive(Debug, Serialize)]
struct Comparison {
    /// The first.
    without_barrier: Outcome,
    /// The second.
    with_barrier: Outcome,
}

/// Plays it.
pub(super) fn play(props: &Props, stage: &Stage) -> anyhow::Result<()> {
    fill(props, stage)?;
    let without_barrier = run(props, stage, &WITHOUT)?;
    stage.leave()?;
    props.narration.say("");
    let with_barrier = run(props, stage, &WITH)?;
    let comparison = Comparison { without_barrier, with_barrier };
    props.narration.say("");
    match props.output {
        Output::Table => print(&comparison.text())?,
        Output::Json => print_json(&comparison)?,
    }
    comparison.check()?;
    let tries = tries();
    tries::check(&tries, &props.url())?;
    if !props.exit {
        tries::show(&tries, &props.url(), &props.narration);
        swap(props);
        props.narration.say("Ctrl-C ends it.");
        stage.serve_on()?;
    }
    Ok(())
}

/// Fills the input topics.
fn fill(props: &Props, stage: &Stage) -> anyhow::Result<()> {
    let (rows, projects) = (number(ROWS), number(PROJECTS));
    props.narration.say(&format!(
        "The project aggregate, on a Kafka inside this process (librdkafka's mock cluster, {}).

     projekte, and five more streams   {projects} projects of 3 March, a record of each in every stream
     wirtschaftseinheiten, mietobjekte {rows} rows each, every project's among them; exported anew in the night
                                       after it, so that each row carries a later timestamp than the projects
",
        props.cluster.bootstrap_servers()
    ));
    props.cluster.create(&[TABLES.as_slice(), STREAMS.as_slice()].concat())?;
    let all = [records::rows(), records::events()].concat();
    props.cluster.fill(&all, stage, props.narration.progress("filling the topics", all.len() as u64))
}

/// Runs the topology from empty until everything is through. The instance stays on the stage.
fn run(props: &Props, stage: &Stage, run: &Run) -> anyhow::Result<Outcome> {
    props.narration.say(&format!("{}\n     (this broker takes 3 s to form a group)", run.title));
    let own = [("app.id", run.app), ("app.threads", "8"), ("sinks.projekt-aggregate.topic", run.app)];
    let topology = props.topology(&[own.as_slice(), run.settings].concat())?;
    let topics = props.cluster.create_outputs(&topology)?;
    let mut outputs = Outputs::of(run.app, props.cluster.settings())?;
    let began = Instant::now();
    let instance = stage.enter(&topology)?;

    let mut steps = props.narration.progress("stream records", STREAM_RECORDS);
    let mut watch = Watch::default();
    loop {
        outputs.take()?;
        let status = instance.status();
        if watch.look(&status, outputs.counted())? && run.waits {
            let (rows, seconds) = (number(2 * ROWS), began.elapsed().as_secs_f64());
            props
                .narration
                .say(&format!("     the tables are full after {seconds:.1} s: {rows} rows; the streams begin"));
        }
        steps.show(watch.processed);
        if watch.processed == STREAM_RECORDS && outputs.counted() == COUNTED {
            break;
        }
        stage.pause(LOOK)?;
    }
    drop(steps);
    let outcome = outputs.outcome();
    let seconds = began.elapsed().as_secs_f64();
    props.narration.say(&format!(
        "     {} stream records after {seconds:.1} s: of {} projekte, {} have both rows and {} lack one",
        number(watch.processed),
        number(outcome.projekte),
        number(outcome.joined),
        number(outcome.missing)
    ));
    if outcome.missing > 0 {
        wait_for_rows(&outputs, &instance, stage)?;
        props.narration.say("     by now the tables hold every row that is missing: they came too late");
    }
    ensure!(
        outcome.projekte == PROJECTS,
        "{} projekte should have come out, but {} did",
        number(PROJECTS),
        number(outcome.projekte)
    );
    props.cluster.assert_whole(&topics)?;
    Ok(outcome)
}

/// What was seen of a run.
#[derive(Default)]
struct Watch {
    /// Stream records processed.
    processed: u64,
    /// What has come out so far.
    counted: u64,
    /// Rows read from the tables' topics.
    rows: u64,
    /// When something happened last.
    moved: Option<Instant>,
}

impl Watch {
    /// Looks at the instance, and at what has come out. Returns whether its tables have just become full.
    fn look(&mut self, status: &InstanceStatus, counted: u64) -> anyhow::Result<bool> {
        let processed: u64 = status.tasks.iter().map(|task| task.processed).sum();
        let restores = status.tasks.iter().flat_map(|task| &task.restore);
        let tables = restores.filter(|part| TABLES.contains(&part.store.as_str()));
        let rows: u64 = tables.map(|part| u64::try_from(part.position).unwrap_or(0)).sum();
        ensure!(
            processed <= STREAM_RECORDS && counted <= COUNTED,
            "{} stream records and {} of them in aggregates are too many: {} and {} were written",
            number(processed),
            number(counted),
            number(STREAM_RECORDS),
            number(COUNTED)
        );
        let filled = self.rows < 2 * ROWS && rows >= 2 * ROWS;
        let moved = (processed, counted, rows) != (self.processed, self.counted, self.rows);
        (self.processed, self.counted, self.rows) = (processed, counted, rows);
        let now = Instant::now();
        if moved {
            self.moved = Some(now);
        } else if now.duration_since(*self.moved.get_or_insert(now)) > PATIENCE {
            bail!(
                "nothing happens any more: {} of {} stream records are through, {} of {} came out; {}",
                number(processed),
                number(STREAM_RECORDS),
                number(counted),
                number(COUNTED),
                waits_for(status)
            );
        }
        Ok(filled)
    }
}

/// What an instance waits for, for people.
fn waits_for(status: &InstanceStatus) -> String {
    let tasks = status.tasks.iter().filter(|task| !task.reason.is_empty());
    let reasons = tasks.map(|task| format!("task {}: {}", task.task, task.reason));
    let reasons: Vec<String> = status.waits_for.iter().cloned().chain(reasons).collect();
    if reasons.is_empty() { format!("the instance is {:?}", status.state).to_lowercase() } else { reasons.join("; ") }
}

/// Waits until the tables hold the rows that projects lack: they are on the topics, and arrive.
fn wait_for_rows(outputs: &Outputs, instance: &Handle, stage: &Stage) -> anyhow::Result<()> {
    let began = Instant::now();
    for key in outputs.missing() {
        for table in TABLES {
            while instance.catalog().get(table, key)?.is_none() {
                let key = String::from_utf8_lossy(key);
                ensure!(began.elapsed() < PATIENCE, "{table} has no row {key}, although its topic does");
                stage.pause(LOOK)?;
            }
        }
    }
    Ok(())
}

impl Comparison {
    /// For people.
    fn text(&self) -> String {
        let mut table = Table::new(["barrier", "projekte", "joined", "missing"]);
        for (barrier, outcome) in [("without", self.without_barrier), ("with", self.with_barrier)] {
            let Outcome { projekte, joined, missing } = outcome;
            table.row([barrier.to_owned(), number(projekte), number(joined), number(missing)]);
        }
        table.render()
    }

    /// What must have come out.
    fn check(&self) -> anyhow::Result<()> {
        let (without, with) = (self.without_barrier.missing, self.with_barrier.missing);
        ensure!(with == 0, "with the barrier no projekt should lack a row, but {} do", number(with));
        ensure!(without > 0, "without the barrier projekte should lack rows, but all were joined");
        Ok(())
    }
}

/// What to try.
fn tries() -> Vec<Try> {
    let key = records::key(1);
    vec![
        Try::new("/readyz?verbose", 200, "readyz check passed", "ready: tables full, all tasks run"),
        Try::new(format!("/v1/stores/projekt-store/keys/{key}"), 200, "WE-0000001", "a project with its rows"),
        Try::new(format!("/v1/stores/mietobjekte/keys/{key}"), 200, "MO-0000001", "a row of a table"),
        Try::new("/v1/status", 200, "\"tasks\"", "tasks, tables, lag, plugins"),
        Try::new("/metrics", 200, "weir_", "for Prometheus"),
    ]
}

/// Shows how to swap the plugin, where there is another version of it.
fn swap(props: &Props) {
    let (Some(other), Ok(program)) = (props.other_version(), std::env::current_exe()) else { return };
    props.narration.say(&format!(
        "or swap the plugin while it runs, and back:

  {program} plugin deploy {other} --name projekt --server {url}
  {program} plugin rollback projekt --server {url}
",
        program = program.display(),
        other = other.display(),
        url = props.url()
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{RestoreStatus, TaskId, TaskState, TaskStatus};

    /// An outcome of ten projects.
    fn outcome(missing: u64) -> Outcome {
        Outcome { projekte: 10, joined: 10 - missing, missing }
    }

    #[test]
    fn the_comparison_is_a_table_and_holds_only_if_the_barrier_makes_the_difference() {
        let comparison = |without, with| Comparison { without_barrier: outcome(without), with_barrier: outcome(with) };
        let text = "BARRIER  PROJEKTE  JOINED  MISSING\nwithout  10        1       9\nwith     10        10      0\n";
        assert_eq!(comparison(9, 0).text(), text);
        comparison(9, 0).check().unwrap();
        let error = |without, with| comparison(without, with).check().unwrap_err().to_string();
        assert_eq!(error(9, 2), "with the barrier no projekt should lack a row, but 2 do");
        assert_eq!(error(0, 0), "without the barrier projekte should lack rows, but all were joined");
    }

    #[test]
    fn full_tables_and_too_many_records_are_noticed() {
        let task = |processed, rows| TaskStatus {
            task: TaskId { subtopology: 0, partition: 0 }.to_string(),
            thread: 0,
            state: TaskState::Running,
            reason: String::new(),
            restore: vec![RestoreStatus { store: TABLES[0].to_owned(), position: rows, ..RestoreStatus::default() }],
            inputs: vec![],
            processed,
            dropped: std::collections::BTreeMap::new(),
            generation: crate::model::Generation::default(),
        };
        let status =
            |processed, rows| InstanceStatus { tasks: vec![task(processed, rows)], ..InstanceStatus::default() };
        let all = 2 * ROWS as i64;
        let mut watch = Watch::default();
        assert!(!watch.look(&status(0, 5), 0).unwrap());
        assert!(watch.look(&status(0, all), 0).unwrap());
        assert!(!watch.look(&status(STREAM_RECORDS, all), COUNTED).unwrap());
        watch.look(&status(STREAM_RECORDS + 1, all), COUNTED).unwrap_err();
        watch.look(&status(STREAM_RECORDS, all), COUNTED + 1).unwrap_err();
    }
}
