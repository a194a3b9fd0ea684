//! manifest.toml, as it was when this was built.
use crate::json::Json;

const TEXT: &str = include_str!("../manifest.toml");

/// The manifest, as long as each line is a [section], a comment, or a key and a value that JSON writes alike.
pub fn read() -> Result<Json, String> {
    let mut sections: Vec<(String, Json)> = Vec::new();
    for line in TEXT
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        if line.starts_with('[') {
            sections.push((
                line.trim_matches(['[', ']']).to_string(),
                Json::Object(Vec::new()),
            ));
            continue;
        }
        let member = line.split_once('=').and_then(|(key, text)| {
            let value = Json::parse(text.as_bytes()).ok()?;
            Some((key.trim().to_string(), value))
        });
        match (sections.last_mut(), member) {
            (Some((_, Json::Object(members))), Some(member)) => members.push(member),
            _ => {
                return Err(format!(
                    "manifest.toml: not a section, or a key and a JSON value: {line}"
                ))
            }
        }
    }
    Ok(Json::Object(sections))
}
