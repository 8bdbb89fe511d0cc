//! `weir query`: one entry of a store.

use clap::Args;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::table::print;
use super::{Context, Output, client};
use crate::http::path_segment;

/// Arguments of `weir query`.
#[derive(Debug, Args)]
pub(super) struct QueryArgs {
    /// The store's name
    store: String,
    /// The key, as text
    key: String,
    /// The key is written in base64
    #[arg(long)]
    base64: bool,
}

/// The entry, as the server writes it.
#[derive(Deserialize)]
struct Entry {
    /// The value, if it is JSON.
    value: Option<Box<RawValue>>,
    /// Else its bytes.
    value_base64: Option<String>,
}

/// Prints the entry: its value alone for people, with key and timestamp for programs.
pub(super) fn run(args: &QueryArgs, context: &Context) -> anyhow::Result<()> {
    let format = if args.base64 { "?key-format=base64" } else { "" };
    let path = format!("/v1/stores/{}/keys/{}{format}", path_segment(&args.store), path_segment(&args.key));
    let body = context.client.get(&path)?;
    let text = match context.output {
        Output::Json => String::from_utf8_lossy(&body).into_owned(),
        Output::Table => {
            let entry: Entry = client::parse(&body)?;
            entry.value.map(|value| value.get().to_owned()).or(entry.value_base64).unwrap_or_else(|| "null".to_owned())
        }
    };
    Ok(print(&(text + "\n"))?)
}
