//! The order status service: `GET /api/order/status?orderId=…` from the store `orders`.
//!
//! An order's key is its id as text. Its value is what producers of such topics write: a JSON object with a text field
//! `status` (`{"orderId":"O1","status":"SHIPPED"}`; other fields don't matter), a JSON string (`"SHIPPED"`), or the status as
//! bare text (`SHIPPED`).

use std::borrow::Cow;

use serde::Deserialize;
use weir_guest::{Request, Response, Stores, View};

/// The store, as the topology file names it.
const ORDERS: &str = "orders";

/// Answers with the status of the order that the parameter `orderId` names.
#[derive(Clone, Copy, Debug)]
pub struct Status;

impl View for Status {
    const NAME: &'static str = "status";
    const DOC: &'static str =
        "The status of the order orderId as text; 400 without the parameter, 404 for an unknown order.";

    fn answer(&self, request: &Request, stores: &dyn Stores) -> Response {
        // An empty parameter names no order: the caller has left it out.
        let Some(id) = request.parameter("orderId").filter(|id| !id.is_empty()) else {
            return Response::text(400, "Missing orderId parameter");
        };
        match stores.get(ORDERS, id.as_bytes()) {
            Ok(Some(order)) => status(&order).map_or_else(
                || Response::text(500, "Order has no readable status"),
                |status| Response::text(200, status),
            ),
            Ok(None) => Response::text(404, "Order not found"),
            Err(reason) => Response::text(503, reason),
        }
    }
}

/// The status in an order's value.
fn status(order: &[u8]) -> Option<Cow<'_, str>> {
    /// An order as JSON.
    #[derive(Deserialize)]
    struct Order<'a> {
        /// Where it stands.
        #[serde(borrow)]
        status: Cow<'a, str>,
    }

    let text = str::from_utf8(order).ok()?;
    match text.trim_ascii_start().as_bytes().first()? {
        b'{' => serde_json::from_str(text).ok().map(|Order { status }| status),
        b'"' => serde_json::from_str(text).ok().map(Cow::Owned),
        _ => Some(Cow::Borrowed(text)),
    }
}

weir_guest::export! {
    name: "orders",
    version: env!("CARGO_PKG_VERSION"),
    views: [Status],
}

#[cfg(test)]
mod tests {
    use weir_guest::testing::MemoryStores;

    use super::*;

    /// Status code and body of the answer to a query.
    fn get(query: &[(&str, &str)]) -> (u16, String) {
        let stores = MemoryStores::default()
            .with(ORDERS, "O1", r#"{"orderId":"O1","lines":[{"status":"PACKED"}],"status":"SHIPPED"}"#)
            .with(ORDERS, "O2", r#" "IN_\u00dcBERGABE" "#)
            .with(ORDERS, "O3", "CREATED")
            .with(ORDERS, "O4", r#"{"orderId":"O4"}"#)
            .with(ORDERS, "O5", &b"\xff"[..])
            .with(ORDERS, "O6", "");
        let answer = Status.answer(&Request::get("/api/order/status", query), &stores);
        assert_eq!(answer.content_type, "text/plain; charset=utf-8");
        (answer.status, String::from_utf8(answer.body).unwrap())
    }

    #[test]
    fn the_status_is_text_however_the_order_holds_it() {
        assert_eq!(get(&[("orderId", "O1")]), (200, "SHIPPED".to_owned()));
        assert_eq!(get(&[("x", "O3"), ("orderId", "O2"), ("orderId", "O1")]), (200, "IN_ÜBERGABE".to_owned()));
        assert_eq!(get(&[("orderId", "O3")]), (200, "CREATED".to_owned()));
    }

    #[test]
    fn a_missing_parameter_and_an_unknown_order_are_named() {
        let missing = (400, "Missing orderId parameter".to_owned());
        assert_eq!(get(&[]), missing);
        assert_eq!(get(&[("orderid", "O1")]), missing);
        assert_eq!(get(&[("orderId", "")]), missing);
        assert_eq!(get(&[("orderId", "O7")]), (404, "Order not found".to_owned()));
    }

    #[test]
    fn an_order_without_a_readable_status_is_an_error_of_the_data() {
        for id in ["O4", "O5", "O6"] {
            assert_eq!(get(&[("orderId", id)]), (500, "Order has no readable status".to_owned()), "{id}");
        }
    }

    #[test]
    fn a_store_that_is_not_there_is_unavailable() {
        let answer = Status.answer(&Request::get("/", &[("orderId", "O1")]), &MemoryStores::default());
        assert_eq!((answer.status, answer.body), (503, b"no store orders".to_vec()));
    }
}
