//! Puts a function of ours in the place of one of librdkafka's: see `src/kafka/leader_hints.rs`.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_CFG_TARGET_OS").is_some_and(|os| os == "linux") {
        println!("cargo:rustc-link-arg-bins=-Wl,--wrap=rd_kafka_metadata_update_op");
        println!("cargo:rustc-link-arg-tests=-Wl,--wrap=rd_kafka_metadata_update_op");
    }
}
