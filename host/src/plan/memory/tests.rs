use crate::topology::samples::{ORDERS, PROJEKT, topology};

use super::*;

/// The division of a file's memory where each topic has `count` partitions.
fn divide(text: &str, count: i32) -> Result<MemoryPlan, TooLittleMemory> {
    let topology = topology(text);
    let plan = Plan::resolve(&topology);
    let topics = plan.source_topics().chain(plan.global_tables.iter().map(|table| table.topic.as_str()));
    let counts = topics.map(|topic| (topic.to_owned(), count)).collect();
    MemoryPlan::divide(&plan, &topology, &counts)
}

/// The sample with another `memory` and number of threads.
fn projekt(memory: &str, threads: u32) -> String {
    let text = PROJEKT.replace("memory = \"512 MiB\"", &format!("memory = \"{memory}\""));
    text.replace("threads = 8", &format!("threads = {threads}"))
}

#[test]
fn the_parts_make_up_the_whole_whatever_it_is_divided_over() {
    let mut divided = 0;
    for memory in [128, 200, 256, 512, 1000, 4096, 65_536] {
        for threads in [1, 2, 8, 64] {
            for partitions in [1, 8, 100, 1000] {
                let Ok(plan) = divide(&projekt(&format!("{memory} MiB"), threads), partitions) else { continue };
                assert_eq!(plan.sum(), memory << 20, "{plan:?}");
                assert!(plan.stores >= STORES + plan.databases * DATABASE, "{plan:?}");
                assert!(plan.queue >= LEAST_QUEUE && plan.queue <= MOST_QUEUE, "{plan:?}");
                assert!(plan.instance + plan.reserve == 64 * MIB, "{plan:?}");
                divided += 1;
            }
        }
    }
    assert!(divided > 50, "only {divided} were enough");
}

#[test]
fn more_memory_is_never_less_for_any_part() {
    let mut before = divide(&projekt("300 MiB", 2), 8).unwrap();
    for memory in (310..3000).step_by(10) {
        let plan = divide(&projekt(&format!("{memory} MiB"), 2), 8).unwrap();
        let parts =
            |plan: &MemoryPlan| [plan.stores, plan.overlay, plan.queue, plan.answer, plan.producer, plan.instance];
        assert!(parts(&plan).iter().zip(parts(&before)).all(|(now, before)| *now >= before), "{before:?} {plan:?}");
        before = plan;
    }
}

#[test]
fn too_little_is_refused_with_the_minima_and_what_would_do() {
    let error = divide(&projekt("128 MiB", 8), 8).unwrap_err();
    insta::assert_snapshot!(error, @"state.memory is 128 MiB, but this topology needs 280 MiB at least: 20 MiB for stores (cache, indexes, write buffers and compactions of 8 databases), 48 MiB for uncommitted state (8 threads of 2048 KiB in up to 3 copies), 15 MiB for fetched records (3 queues of 64 KiB for 72 partitions, 2 fetches of 1024 KiB), 15 MiB for records to send (8 producers of 1953 KiB), 82 MiB for plugins (10 instances of 2048 KiB, 62 MiB more for one at a time), 80 MiB for headroom (code, stacks, compiled plugins, what the allocator holds back); raise it, or lower app.threads or plugins' memory");
    let needed = error.needed.to_string();
    divide(&projekt(&needed, 8), 8).unwrap();
    let less = format!("{} MiB", (error.needed.0 >> 20) - 1);
    divide(&projekt(&less, 8), 8).unwrap_err();
}

#[test]
fn memory_stores_count_once_a_task_and_once_a_global_table() {
    let orders = divide(ORDERS, 3).unwrap();
    assert_eq!((orders.memory_stores, orders.threads, orders.producers), (256 << 20, 0, 0));
    let table = "app.id = 'a'\nkafka.bootstrap.servers = 'b:1'\nstreams.s.topic = 's'\nplugins.p.file = 'p.wasm'
[tables.t]\nstore = 'memory'\nmax_memory = '10 MiB'
[joins.j]\nleft = 's'\ntable = 't'\nkind = 'left'\nfunction = 'p.f'\nsinks.k.from = 'j'";
    assert_eq!(divide(&table.replace("\nsinks.k.from", "\n[sinks.k]\nfrom"), 8).unwrap().memory_stores, 80 << 20);
}
