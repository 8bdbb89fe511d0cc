//! The command line as it is typed.

use clap::CommandFactory;

use super::*;

/// Parses a command line.
fn parse(line: &str) -> Result<Arguments, clap::Error> {
    Arguments::try_parse_from(line.split_whitespace())
}

#[test]
fn the_arguments_fit_together() {
    Arguments::command().debug_assert();
}

#[test]
fn command_lines_of_the_documentation_are_taken() {
    for line in [
        "weir run weir.toml",
        "weir run weir.toml --set app.threads=2 --set kafka.bootstrap.servers=localhost:9092 --log-format json",
        "weir check weir.toml -o json",
        "weir demo",
        "weir demo orders --exit --listen 127.0.0.1:0 --plugins plugins/target/weir",
        "weir plugin inspect p.wasm",
        "weir plugin deploy p.wasm --name projekt --message why --server http://localhost:1",
        "weir plugin list",
        "weir plugin show projekt",
        "weir plugin rollback projekt",
        "weir query projekt-store 17",
        "weir query projekt-store AAE= --base64",
        "weir -qq --color never status",
        "weir wait ready --timeout 5m -vv",
    ] {
        assert!(parse(line).is_ok(), "{line}: {}", parse(line).unwrap_err());
    }
}

#[test]
fn wrong_command_lines_are_refused() {
    for line in [
        "weir",
        "weir run",
        "weir run weir.toml --set app.threads",
        "weir run weir.toml --set =2",
        "weir check weir.toml -o yaml",
        "weir demo other",
        "weir plugin deploy p.wasm",
        "weir query store",
        "weir wait ready --timeout soon",
    ] {
        let error = parse(line).expect_err(line);
        assert!(error.use_stderr(), "{line}");
    }
}

#[test]
fn an_override_keeps_all_behind_the_first_equals_sign() {
    let expected = ("kafka.sasl.password".to_owned(), "a=b".to_owned());
    assert_eq!(parse_override("kafka.sasl.password=a=b"), Ok(expected));
    assert_eq!(parse_override("a="), Ok(("a".to_owned(), String::new())));
}
