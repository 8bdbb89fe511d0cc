//! `weir status`: what an instance does.

use super::table::{Table, print, print_json};
use super::{Context, Output};
use crate::model::{InstanceStatus, RestoreStatus};

/// Prints the status.
pub(super) fn run(context: &Context) -> anyhow::Result<()> {
    let status: InstanceStatus = context.client.get_json("/v1/status")?;
    match context.output {
        Output::Json => print_json(&status),
        Output::Table => Ok(print(&in_words(&status)?)?),
    }
}

/// The name that an enum of the model has in JSON.
fn name(value: &impl serde::Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_value(value)?.as_str().unwrap_or_default().to_owned())
}

/// The status for people.
fn in_words(status: &InstanceStatus) -> anyhow::Result<String> {
    let mut text = format!(
        "{} is {} ({}, instance {}, plugin generation {})\n",
        status.app,
        name(&status.state)?,
        status.guarantee,
        status.instance,
        status.generation
    );
    for reason in &status.waits_for {
        text += &format!("  waits for {reason}\n");
    }
    if !status.tasks.is_empty() {
        let mut table = Table::new(["task", "thread", "state", "restored", "processed", "lag", "reason"]);
        for task in &status.tasks {
            let lag: Option<i64> = task.inputs.iter().map(|input| input.lag).sum();
            table.row([
                task.task.clone(),
                task.thread.to_string(),
                name(&task.state)?,
                restored(&task.restore),
                task.processed.to_string(),
                lag.map_or_else(|| "?".to_owned(), |lag| lag.to_string()),
                task.reason.clone(),
            ]);
        }
        text += &format!("\n{}", table.render());
    }
    if !status.standbys.is_empty() {
        let mut table = Table::new(["standby", "records", "lag", "reason"]);
        for standby in &status.standbys {
            let lag = standby.lag.map_or_else(|| "?".to_owned(), |lag| lag.to_string());
            table.row([standby.task.clone(), standby.records.to_string(), lag, standby.reason.clone()]);
        }
        text += &format!("\n{}", table.render());
    }
    for problem in &status.standby_problems {
        text += &format!("\nstandbys: {problem}\n");
    }
    if !status.global_tables.is_empty() {
        let mut table = Table::new(["global table", "rows", "restored", "error"]);
        for global in &status.global_tables {
            let error = global.error.clone().unwrap_or_default();
            table.row([global.table.clone(), global.rows.to_string(), restored(&global.restore), error]);
        }
        text += &format!("\n{}", table.render());
    }
    if !status.stores.is_empty() {
        let mut table = Table::new(["store", "kind", "partitions", "entries"]);
        for store in &status.stores {
            let about = if store.exact { "" } else { "~" };
            let entries = format!("{about}{}", store.entries);
            table.row([store.store.clone(), store.kind.clone(), store.partitions.len().to_string(), entries]);
        }
        text += &format!("\n{}", table.render());
    }
    if !status.plugins.is_empty() {
        text += &format!("\n{}", super::plugin::active(&status.plugins));
    }
    Ok(text)
}

/// How far a restore is: `yes`, or a share.
fn restored(parts: &[RestoreStatus]) -> String {
    if parts.iter().all(|part| part.done) {
        return "yes".to_owned();
    }
    let (done, total) = super::progress::offsets(parts);
    format!("{} %", super::progress::percent(done, total))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Generation, PartitionStatus, StandbyStatus, TableStatus, TaskState, TaskStatus};

    #[test]
    fn people_see_each_task_and_what_it_waits_for() {
        let restore = RestoreStatus { start: 0, end: Some(200), position: 50, ..RestoreStatus::default() };
        let input = PartitionStatus { lag: Some(9), ..PartitionStatus::default() };
        let status = InstanceStatus {
            app: "projekt".to_owned(),
            instance: "abc".to_owned(),
            guarantee: "exactly-once".to_owned(),
            generation: Generation(4),
            waits_for: vec!["the broker".to_owned()],
            tasks: vec![TaskStatus {
                task: "0_1".to_owned(),
                thread: 2,
                state: TaskState::WaitingForPeers,
                reason: "generation 5".to_owned(),
                restore: vec![restore],
                inputs: vec![input],
                processed: 7,
                dropped: std::collections::BTreeMap::new(),
                generation: Generation(4),
            }],
            standbys: vec![StandbyStatus {
                task: "0_2".to_owned(),
                lag: Some(3),
                records: 5,
                ..StandbyStatus::default()
            }],
            standby_problems: vec!["control: no topic".to_owned()],
            global_tables: vec![TableStatus { table: "orders".to_owned(), rows: 3, ..TableStatus::default() }],
            ..InstanceStatus::default()
        };
        let expected = "\
projekt is starting (exactly-once, instance abc, plugin generation 4)
  waits for the broker

TASK  THREAD  STATE              RESTORED  PROCESSED  LAG  REASON
0_1   2       waiting-for-peers  25 %      7          9    generation 5

STANDBY  RECORDS  LAG  REASON
0_2      5        3

standbys: control: no topic

GLOBAL TABLE  ROWS  RESTORED  ERROR
orders        3     yes
";
        assert_eq!(in_words(&status).unwrap(), expected);
    }
}
