//! {{name}} greets people.
mod json;
mod mcptest;
mod stdout;
#[cfg(test)]
mod tests;

use json::Json;
use mcptest::{Method, Refusal, INVALID_PARAMS};

fn greeting(name: &str) -> String {
    format!("Hello, {name}!")
}

/// {"name": "Ada"} -> {"greeting": "Hello, Ada!"}
/// Return an empty object rather than null: mcptest's own host treats a null result as a missing one.
fn greet(params: Option<&Json>) -> Result<Json, Refusal> {
    match params
        .and_then(|given| given.get("name"))
        .and_then(Json::text)
    {
        Some(name) => Ok(Json::object([("greeting", greeting(name).into())])),
        None => Err(Refusal(
            INVALID_PARAMS,
            "greet needs a name, as text".to_string(),
        )),
    }
}

const METHODS: [(&str, Method); 1] = [("greet", greet)];

fn main() {
    let served =
        stdout::claim().and_then(|out| mcptest::serve(&METHODS, std::io::stdin().lock(), out));
    if let Err(error) = served {
        eprintln!("{error}");
        std::process::exit(1);
    }
}
