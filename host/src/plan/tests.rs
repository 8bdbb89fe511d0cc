//! Plans of the two jobs, and of topologies with corners.

use std::collections::BTreeMap;

use crate::model::{FunctionIndex, StoreIndex, TaskId};
use crate::topology::samples::{ORDERS, PROJEKT, topology};

use super::*;

/// `count` partitions for each of `topics`.
fn counts<'a>(topics: impl IntoIterator<Item = &'a str>, count: i32) -> BTreeMap<String, i32> {
    topics.into_iter().map(|topic| (topic.to_owned(), count)).collect()
}

/// A file with what every file needs, and `rest`.
fn plan_of(rest: &str) -> Plan {
    Plan::resolve(&topology(&format!(
        "app.id = 'a'\nkafka.bootstrap.servers = 'b:1'\nplugins.p.file = 'p.wasm'\n{rest}"
    )))
}

#[test]
fn the_project_aggregate() {
    let topology = topology(PROJEKT);
    let plan = Plan::resolve(&topology);
    let counts = counts(plan.source_topics(), 8);
    insta::assert_snapshot!(describe(&plan, &topology, Some(&counts)), @r"
    projekt: exactly-once, 8 threads, a commit every 100 ms
    time: latest; barrier: instance, at most 5 min, then fail
    on stop: leave; state of tasks that have moved away is kept for 10 min

    sub-topology 0: 8 tasks
      reads
        wirtschaftseinheiten  table, topic wirtschaftseinheiten, 8 partitions
        mietobjekte           table, topic mietobjekte, 8 partitions
        projekte              stream, topic projekte, 8 partitions
        projektstatus         stream, topic projektstatus, 8 partitions
        befunde               stream, topic befunde, 8 partitions
        aufgaben              stream, topic aufgaben, 8 partitions
        durchfuehrungen       stream, topic durchfuehrungen, 8 partitions
        gruppen               stream, topic gruppen, 8 partitions
      nodes
        mit-wirtschaftseinheit  left join of projekte with wirtschaftseinheiten: projekt.mit_wirtschaftseinheit
        mit-mietobjekt          left join of mit-wirtschaftseinheit with mietobjekte: projekt.mit_mietobjekt
        projekt-store           aggregate, emits batch, of
            mit-mietobjekt: projekt.plus_projekt
            projektstatus: projekt.plus_status
            befunde: projekt.plus_befund
            aufgaben: projekt.plus_aufgabe (on error: skip)
            durchfuehrungen: projekt.plus_durchfuehrung
            gruppen: projekt.plus_gruppe
        ausgabe                 transform of projekt-store: projekt.ausgabe
        projekt-aggregate       sink of ausgabe, topic projekt-aggregate
      stores
        wirtschaftseinheiten  rocksdb, restored from the table's topic wirtschaftseinheiten
        mietobjekte           rocksdb, restored from the table's topic mietobjekte
        projekt-store         rocksdb, changelog projekt-projekt-store-changelog

    plugins
      projekt  projekt.wasm, 64 MiB an instance, 100 ms a call
        joiner       mit_wirtschaftseinheit
        joiner       mit_mietobjekt
        aggregator   plus_projekt
        aggregator   plus_status
        aggregator   plus_befund
        aggregator   plus_aufgabe
        aggregator   plus_durchfuehrung
        aggregator   plus_gruppe
        transformer  ausgabe

    topics that Weir makes
      projekt-projekt-store-changelog  8 partitions, cleanup.policy=compact, message.timestamp.type=CreateTime
      projekt-plugins                  1 partition, cleanup.policy=compact, message.timestamp.type=CreateTime

    memory: 512 MiB in all
      stores              103 MiB  cache, indexes, write buffers and compactions of 8 databases
      uncommitted state    88 MiB  8 threads of 3782 KiB in up to 3 copies
      fetched records      56 MiB  3 queues of 237 KiB for 72 partitions, 2 fetches of 3105 KiB
      records to send      35 MiB  8 producers of 4554 KiB
      plugins             100 MiB  10 instances of 4129 KiB, 59 MiB more for one at a time
      headroom            128 MiB  code, stacks, compiled plugins, what the allocator holds back
    ");
    let tasks = tasks(&plan, &counts).unwrap();
    assert_eq!(tasks, (0..8).map(|partition| TaskId { subtopology: 0, partition }).collect::<Vec<_>>());
    assert_eq!(
        internal_topics(&plan, &counts),
        [InternalTopic {
            name: "projekt-projekt-store-changelog".to_owned(),
            partitions: 8,
            config: vec![
                ("cleanup.policy".to_owned(), "compact".to_owned()),
                ("message.timestamp.type".to_owned(), "CreateTime".to_owned()),
            ],
        }]
    );
    assert_eq!(plan.output_topics().collect::<Vec<_>>(), ["projekt-aggregate"]);
}

#[test]
fn the_order_status_service() {
    let topology = topology(ORDERS);
    let plan = Plan::resolve(&topology);
    assert_eq!((plan.subtopologies.len(), plan.global_tables.len()), (0, 1));
    insta::assert_snapshot!(describe(&plan, &topology, None), @r"
    order-status: exactly-once, 1 thread, a commit every 100 ms
    time: latest; barrier: task
    on stop: leave; state of tasks that have moved away is kept for 10 min

    global tables (whole on every instance)
      orders  memory (256 MiB), topic orders

    plugins
      orders  orders.wasm, 64 MiB an instance, 100 ms a call
        view         status

    views
      order-status  /api/order/status, orders.status, reads orders

    readiness
      /ready  once orders is restored and holds 1 or more rows

    topics that Weir makes
      order-status-plugins  1 partition, cleanup.policy=compact, message.timestamp.type=CreateTime

    memory: 512 MiB in all, as if each topic had one partition
      stores             59 MiB  cache, indexes, write buffers and compactions of 1 database
      fetched records     6 MiB  3 queues of 1024 KiB for 1 partition, 2 fetches of 1549 KiB
      plugins            78 MiB  6 instances of 2923 KiB, 61 MiB more for one at a time
      memory stores     256 MiB  the sum of their max_memory
      headroom          112 MiB  code, stacks, compiled plugins, what the allocator holds back
    ");
    let json = describe_json(&plan, &topology, Some(&counts(["orders"], 3)));
    let json = serde_json::to_string_pretty(&json).unwrap();
    insta::assert_snapshot!(json, @r#"
    {
      "app": "order-status",
      "barrier": {
        "on_timeout": "fail",
        "scope": "task",
        "timeout": null
      },
      "cleanup_delay": "10 min",
      "commit_interval": "100 ms",
      "dead_letters": null,
      "global_tables": [
        {
          "kind": "memory (256 MiB)",
          "name": "orders",
          "partitions": 3,
          "topic": "orders"
        }
      ],
      "guarantee": "exactly-once",
      "internal_topics": [
        {
          "config": {
            "cleanup.policy": "compact",
            "message.timestamp.type": "CreateTime"
          },
          "name": "order-status-plugins",
          "partitions": 1
        }
      ],
      "memory": {
        "partitions_unknown": false,
        "parts": [
          {
            "memory": "56346768 B",
            "of": "cache, indexes, write buffers and compactions of 1 database",
            "part": "stores"
          },
          {
            "memory": "12602572 B",
            "of": "3 queues of 1024 KiB for 3 partitions, 2 fetches of 1545 KiB",
            "part": "fetched records"
          },
          {
            "memory": "82045604 B",
            "of": "6 instances of 2917 KiB, 61 MiB more for one at a time",
            "part": "plugins"
          },
          {
            "memory": "256 MiB",
            "of": "the sum of their max_memory",
            "part": "memory stores"
          },
          {
            "memory": "112 MiB",
            "of": "code, stacks, compiled plugins, what the allocator holds back",
            "part": "headroom"
          }
        ],
        "total": "512 MiB"
      },
      "on_stop": "leave",
      "plugins": [
        {
          "call_timeout": "100 ms",
          "file": "orders.wasm",
          "functions": [
            {
              "function": "status",
              "kind": "view",
              "on_error": "fail",
              "plugin": "orders"
            }
          ],
          "memory": "64 MiB",
          "name": "orders"
        }
      ],
      "ready": {
        "min_records": 1,
        "route": "/ready",
        "table": "orders"
      },
      "standby": 0,
      "subtopologies": [],
      "threads": 1,
      "time": "latest",
      "views": [
        {
          "function": {
            "function": "status",
            "kind": "view",
            "on_error": "fail",
            "plugin": "orders"
          },
          "name": "order-status",
          "route": "/api/order/status",
          "stores": [
            "orders"
          ]
        }
      ]
    }
    "#);
    assert_eq!(tasks(&plan, &BTreeMap::new()), Ok(Vec::new()));
}

#[test]
fn standbys_are_told_and_have_a_topic_to_agree_by() {
    let topology = |standby: &str| topology(&PROJEKT.replace("memory = \"512 MiB\"", standby));
    for (standby, line) in [
        ("standby = 1", "\nstandby: state is kept up to date where tasks go when an instance is lost\n"),
        ("standby = 2", "\nstandby: state is kept up to date where tasks go when up to 2 instances are lost\n"),
    ] {
        let topology = topology(standby);
        let text = describe(&Plan::resolve(&topology), &topology, None);
        assert!(text.contains(line), "{text}");
        assert!(text.contains("\n  projekt-control                  1 partition, cleanup.policy=compact"), "{text}");
    }
    let topology = topology("standby = 0");
    let text = describe(&Plan::resolve(&topology), &topology, None);
    assert!(!text.contains("standby") && !text.contains("projekt-control"), "{text}");
}

/// Names of what each sub-topology reads, does and keeps.
fn shape(plan: &Plan) -> Vec<[Vec<&str>; 3]> {
    let parts = plan.subtopologies.iter().map(|part| {
        [
            part.sources.iter().map(|source| source.name.as_str()).collect(),
            part.nodes.iter().map(|node| node.name.as_str()).collect(),
            part.stores.iter().map(|store| store.name.as_str()).collect(),
        ]
    });
    parts.collect()
}

#[test]
fn parts_are_connected_by_all_but_global_tables() {
    let plan = plan_of(
        "
        [streams.one]
        [streams.two]
        [streams.nobody]
        [tables.alone]
        [tables.rows]
        [global_tables.all]
        [joins.left]
        left = 'one'
        table = 'all'
        kind = 'inner'
        function = 'p.a'
        [joins.right]
        left = 'two'
        table = 'all'
        kind = 'left'
        function = 'p.a'
        [joins.rows-of-two]
        left = 'right'
        table = 'rows'
        kind = 'left'
        function = 'p.b'
        ",
    );
    let expected = [
        [vec!["one"], vec!["left"], vec![]],
        [vec!["two", "rows"], vec!["right", "rows-of-two"], vec!["rows"]],
        [vec!["alone"], vec![], vec!["alone"]],
    ];
    assert_eq!(shape(&plan), expected);
    assert_eq!(plan.subtopologies.iter().map(|part| part.index).collect::<Vec<_>>(), [0, 1, 2]);
    let joins: Vec<_> = plan.subtopologies.iter().flat_map(|part| &part.nodes).map(|node| node.kind.clone()).collect();
    let join = |table, left, function| NodeKind::Join { table, left, function: FunctionIndex(function) };
    assert_eq!(
        joins,
        [
            join(JoinTable::Global(0), false, 0),
            join(JoinTable::Global(0), true, 1),
            join(JoinTable::Store(StoreIndex(0)), true, 2),
        ]
    );
}

#[test]
fn nodes_come_after_what_feeds_them_and_functions_in_the_files_order() {
    let plan = plan_of(
        "
        [sinks.end]
        from = 'last'
        topic = 'out'
        [transforms.last]
        from = 'sum'
        function = 'p.last'
        on_error = 'skip'
        [aggregates.sum]
        inputs = [{ from = 'first', function = 'p.add', on_error = 'dlq' }, { from = 'in', function = 'p.add' }]
        emit = 'each'
        store = 'memory'
        max_memory = '1 MiB'
        [transforms.first]
        from = 'in'
        function = 'p.first'
        [streams.in]
        [views.v]
        route = '/v'
        function = 'p.v'
        stores = ['sum']
        [dead_letters]
        topic = 'dead'
        ",
    );
    assert_eq!(shape(&plan), [[vec!["in"], vec!["first", "sum", "last", "end"], vec!["sum"]]]);
    let functions: Vec<_> =
        plan.functions.iter().map(|used| (used.function.as_str(), used.kind, used.on_error)).collect();
    assert_eq!(
        functions,
        [
            ("last", FunctionKind::Transformer, OnError::Skip),
            ("add", FunctionKind::Aggregator, OnError::DeadLetter),
            ("add", FunctionKind::Aggregator, OnError::Fail),
            ("first", FunctionKind::Transformer, OnError::Fail),
            ("v", FunctionKind::View, OnError::Fail),
        ]
    );
    let part = &plan.subtopologies[0];
    assert_eq!(part.nodes[1].inputs, [NodeInput::Node(0), NodeInput::Source(0)]);
    let functions = vec![FunctionIndex(1), FunctionIndex(2)];
    assert_eq!(part.nodes[1].kind, NodeKind::Aggregate { store: StoreIndex(0), functions, emit: Emit::Each });
    assert_eq!(part.stores[0].kind, StoreKind::Memory { max_bytes: 1 << 20 });
    assert_eq!(part.stores[0].origin.topic(), "a-sum-changelog");
    assert_eq!(plan.output_topics().collect::<Vec<_>>(), ["out", "dead"]);
    assert_eq!(plan.dead_letters.as_deref(), Some("dead"));
}

#[test]
fn unequal_and_missing_topics_are_all_named() {
    let topology = topology(PROJEKT);
    let plan = Plan::resolve(&topology);
    let mut counts = counts(plan.source_topics(), 8);
    counts.insert("befunde".to_owned(), 6);
    assert_eq!(
        tasks(&plan, &counts).unwrap_err().to_string(),
        "sub-topology 0: the numbers of partitions differ: wirtschaftseinheiten 8, mietobjekte 8, projekte 8, \
         projektstatus 8, befunde 6, aufgaben 8, durchfuehrungen 8, gruppen 8; all of them need the same number"
    );
    counts.remove("gruppen");
    counts.remove("wirtschaftseinheiten");
    let problems = tasks(&plan, &counts).unwrap_err();
    assert_eq!(
        problems.to_string(),
        "sub-topology 0: topics are missing: wirtschaftseinheiten missing, mietobjekte 8, projekte 8, projektstatus 8, \
         befunde 6, aufgaben 8, durchfuehrungen 8, gruppen missing; all of them need the same number"
    );
    assert_eq!(internal_topics(&plan, &counts), []);
    assert!(describe(&plan, &topology, Some(&counts)).contains("\nsub-topology 0\n"));
}
