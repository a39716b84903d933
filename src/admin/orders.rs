//! `POST /api/v1/VERB`: passes an [order](super::order) on to the process's life. The body has what the verb needs.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Map, Value};

use super::asked::Asked;
use super::context::Context;
use super::endpoint::Later;
use super::order::{Order, Verb};
use crate::small_server::Answer;

/// Gives the order that the path's last segment names, and answers when it was carried out: 200, or 409 where it could not be.
pub fn order(context: Arc<Context>, asked: Asked) -> Later {
    Box::pin(async move {
        let verb = match verb(&asked) {
            Ok(verb) => verb,
            Err(refusal) => return refusal,
        };
        let stopping = || Answer::error(StatusCode::SERVICE_UNAVAILABLE, "the process is about to stop");
        let (order, pending) = Order::new(verb);
        if context.orders.send(order).await.is_err() {
            return stopping();
        }
        // one that nobody carries out any more is dropped without an answer
        let Some((answer, witness)) = pending.answer().await else { return stopping() };
        let told = if answer.done {
            Answer::json(StatusCode::OK, &answer)
        } else {
            let mut told = serde_json::to_value(&answer).unwrap_or_default();
            if let Some(fields) = told.as_object_mut() {
                fields.insert("error".into(), answer.text.clone().into());
            }
            Answer::json(StatusCode::CONFLICT, &told)
        };
        Answer { witness: Some(witness), ..told }
    })
}

fn verb(asked: &Asked) -> Result<Verb, Answer> {
    let mut words: Map<String, Value> = asked.json()?;
    let name = asked.request().path.rsplit('/').next().unwrap_or_default();
    words.insert(Verb::TAG.to_owned(), name.into());
    serde_json::from_value(Value::Object(words))
        .map_err(|error| Answer::error(StatusCode::BAD_REQUEST, format!("not understood: {error}")))
}
