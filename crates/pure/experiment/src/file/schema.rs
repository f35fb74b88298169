//! The JSON schema of an experiment file, for completion and checks in editors.

use netrig_link::{DirectSettings, LineSettings, Preset, WifiSettings};
use netrig_transport::{sctp, tcp};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value as Json, json};

use super::sections::{
    DatagramSockets, EventSection, FileHeader, FlowSection, LinkSection, NodeSection, ReplicationsSection,
    RunSection, StreamSockets, TransportSection,
};
use crate::{ClaimSpec, FigureSpec, ResponseSpec, TableSpec};

/// Reference to the schema of a text with `${factor}` in it.
const PLACEHOLDER: &str = "#/$defs/Placeholder";

/// The JSON schema (draft 2020-12) of an experiment file. It covers the structure of the TOML: tables, keys, types,
/// names. Rules that involve several parts of a file (references, levels, paths) are checked by
/// [`Experiment::parse`](crate::Experiment::parse).
pub fn schema() -> Json {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let mut root = merged([object::<FileHeader>(&mut generator), object::<RunSection>(&mut generator)]);
    let mut sections = sections(&mut generator);
    sections.insert("format".into(), json!({ "type": "integer", "minimum": 1, "maximum": 1, "description": "Version of the file's format: 1." }));
    if let Some(Json::Object(properties)) = root.get_mut("properties") {
        properties.extend(sections);
    }
    if let Some(Json::Array(required)) = root.get_mut("required") {
        required.extend(["format", "node", "link", "flow", "response"].map(Json::from));
    }
    let mut definitions: Map<String, Json> = generator.take_definitions(true);
    let originals = definitions.clone();
    definitions.values_mut().for_each(|schema| rewrite(schema, &originals));
    let mut root = Json::Object(root);
    rewrite(&mut root, &originals);
    definitions.insert(
        "Placeholder".into(),
        json!({ "type": "string", "pattern": r"\$\{[^}]+\}", "description": "A level of a factor: `${factor}`." }),
    );
    root["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    root["title"] = "netrig experiment".into();
    root["description"] = "An experiment of netrig: topology, traffic, factors and what to measure.".into();
    root["$defs"] = Json::Object(definitions);
    root
}

fn sections(generator: &mut SchemaGenerator) -> Map<String, Json> {
    let level = json!({ "type": ["string", "number", "boolean"] });
    let levels = json!({ "anyOf": [level, { "type": "array", "minItems": 1, "items": level }] });
    let named = |description: &str, of: Json| json!({ "type": "object", "description": description, "additionalProperties": of });
    let mut sections = Map::new();
    let mut add = |name: &str, schema: Json| sections.insert(name.to_owned(), schema);
    add(
        "factors",
        named("What is varied: a level, or a list of them. `${name}` stands for the level.", levels.clone()),
    );
    add(
        "points",
        json!({
            "type": "array",
            "description": "Blocks of combinations: each a cross product of the levels that it names (and of all \
                            levels of the factors that it does not name); the points are their union.",
            "items": {
                "type": "object",
                "properties": { "label": { "type": "string", "description": "Shown with the block's points." } },
                "additionalProperties": levels
            }
        }),
    );
    add("replications", ReplicationsSection::json_schema(generator).to_value());
    add("node", named("Hosts and routers.", NodeSection::json_schema(generator).to_value()));
    add("link", named("Links, each of two directions.", link(generator)));
    add("transport", named("What carries flows.", transport(generator)));
    let event = EventSection::json_schema(generator).to_value();
    add("event", json!({ "type": "array", "description": "What happens when.", "items": event }));
    add("flow", named("Traffic from one node to another.", FlowSection::json_schema(generator).to_value()));
    add("response", named("What is measured.", ResponseSpec::json_schema(generator).to_value()));
    add("claim", named("What is claimed of it.", ClaimSpec::json_schema(generator).to_value()));
    add("table", named("Tables of the report.", TableSpec::json_schema(generator).to_value()));
    add("figure", named("Figures of the report.", FigureSpec::json_schema(generator).to_value()));
    sections
}

/// The schema of a link. A line or a WiFi link has the keys of [`LinkSection`], the keys of its settings, and `reverse`
/// with any of these settings. A cable has the keys of its settings and no `reverse`. A line with a preset requires no
/// settings.
fn link(generator: &mut SchemaGenerator) -> Json {
    let mut section = object::<LinkSection>(generator);
    let wifi = link_of(section.clone(), object::<WifiSettings>(generator));
    if let Some(Json::Object(properties)) = section.get_mut("properties") {
        properties.remove("channel");
    }
    let direct = merged([section.clone(), object::<DirectSettings>(generator)]);
    let line = link_of(section.clone(), object::<LineSettings>(generator));
    let mut settings = object::<LineSettings>(generator);
    settings.remove("required");
    let mut preset = link_of(section, settings);
    preset["properties"]["preset"] = generator.subschema_for::<Preset>().to_value();
    preset["required"] = json!(["between", "preset"]);
    json!({ "anyOf": [line, preset, wifi, direct] })
}

fn link_of(section: Map<String, Json>, settings: Map<String, Json>) -> Json {
    let mut reverse = settings.clone();
    reverse.remove("required");
    reverse.insert("description".into(), "Values of the reverse direction that differ.".into());
    let mut link = merged([section, settings]);
    link["properties"]["reverse"] = Json::Object(reverse);
    Json::Object(link)
}

/// Keys that only one kind of transport has.
const OF_ONE_KIND: [(&str, &str); 4] =
    [("udp", "headers"), ("udp", "layer"), ("mptcp", "backup"), ("mptcp", "net")];

/// The schema of a transport, with the constants of its kind.
fn transport(generator: &mut SchemaGenerator) -> Json {
    let tcp = |generator: &mut SchemaGenerator| {
        merged([object::<tcp::Settings>(generator), object::<StreamSockets>(generator)])
    };
    let constants = [
        ("tcp", tcp(generator)),
        ("mptcp", tcp(generator)),
        ("sctp", object::<sctp::Settings>(generator)),
        ("udp", object::<DatagramSockets>(generator)),
    ];
    let kinds = constants.map(|(kind, constants)| {
        let mut section = object::<TransportSection>(generator);
        if let Some(Json::Object(properties)) = section.get_mut("properties") {
            let others = OF_ONE_KIND.iter().filter(|(of, _)| *of != kind);
            others.for_each(|(_, key)| drop(properties.remove(*key)));
        }
        let mut schema = merged([section, constants]);
        schema["properties"]["kind"] = json!({ "const": kind });
        Json::Object(schema)
    });
    json!({ "anyOf": kinds })
}

/// The schema of a structure, not a reference to it.
fn object<T: JsonSchema>(generator: &mut SchemaGenerator) -> Map<String, Json> {
    match T::json_schema(generator).to_value() {
        Json::Object(schema) => schema,
        // A schema may also be `true`, but never for a structure.
        _ => Map::new(),
    }
}

/// The schema of one object with the properties of all `objects`.
fn merged<const N: usize>(objects: [Map<String, Json>; N]) -> Map<String, Json> {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for object in objects {
        if let Some(Json::Object(own)) = object.get("properties") {
            properties.extend(own.clone());
        }
        if let Some(Json::Array(own)) = object.get("required") {
            required.extend(own.clone());
        }
    }
    let mut all = Map::new();
    all.insert("type".into(), "object".into());
    all.insert("properties".into(), Json::Object(properties));
    all.insert("required".into(), Json::Array(required));
    all.insert("additionalProperties".into(), false.into());
    all
}

/// Turns the schema of Rust types into the schema of the file: `{ kind = "x", … }` for tagged enums, and a placeholder
/// wherever a value is allowed.
fn rewrite(schema: &mut Json, definitions: &Map<String, Json>) {
    match schema {
        Json::Object(object) => {
            if object.contains_key("x-tag") {
                tag_variants(object, definitions);
            }
            if let Some(alternatives) = object.remove("oneOf") {
                object.insert("anyOf".into(), alternatives);
            }
            if let Some(Json::Array(alternatives)) = object.get_mut("anyOf")
                && alternatives.iter().all(is_name)
            {
                alternatives.push(json!({ "$ref": PLACEHOLDER }));
                return;
            }
            if takes_placeholder(object) {
                let plain = std::mem::take(object);
                let description = plain.get("description").cloned();
                object.extend(description.map(|text| ("description".to_owned(), text)));
                object.insert("anyOf".into(), json!([plain, { "$ref": PLACEHOLDER }]));
                return;
            }
            // Defaults and examples are values, not schemas.
            let schemas =
                object.iter_mut().filter(|(key, _)| !matches!(key.as_str(), "default" | "examples" | "enum"));
            schemas.for_each(|(_, inner)| rewrite(inner, definitions));
        }
        Json::Array(elements) => elements.iter_mut().for_each(|inner| rewrite(inner, definitions)),
        _ => {}
    }
}

/// Whether a schema accepts one name or several.
fn is_name(schema: &Json) -> bool {
    schema.get("const").is_some_and(Json::is_string) || schema.get("enum").is_some()
}

/// Whether a schema accepts a scalar but not every text, so that a placeholder must be allowed in addition.
fn takes_placeholder(object: &Map<String, Json>) -> bool {
    let types: Vec<&str> = match object.get("type") {
        Some(Json::String(only)) => vec![only],
        Some(Json::Array(several)) => several.iter().filter_map(Json::as_str).collect(),
        _ => Vec::new(),
    };
    let text = types.contains(&"string");
    let scalar = types.iter().any(|name| matches!(*name, "number" | "integer" | "boolean"));
    object.contains_key("enum") || object.contains_key("const") || scalar && !text
}

/// Rewrites `{ x: { … } }` as `{ kind: "x", … }`.
fn tag_variants(object: &mut Map<String, Json>, definitions: &Map<String, Json>) {
    object.remove("x-tag");
    let Some(Json::Array(variants)) = object.remove("oneOf").or_else(|| object.remove("anyOf")) else {
        return;
    };
    let mut tagged: Vec<Json> =
        variants.into_iter().map(|variant| tag_variant(variant, definitions)).collect();
    // The kind itself may be a placeholder. Then the schema cannot check the other keys.
    tagged.push(
        json!({ "type": "object", "properties": { "kind": { "$ref": PLACEHOLDER } }, "required": ["kind"] }),
    );
    object.insert("anyOf".into(), Json::Array(tagged));
}

fn tag_variant(variant: Json, definitions: &Map<String, Json>) -> Json {
    let Some((name, content)) =
        variant["properties"].as_object().and_then(|properties| properties.iter().next())
    else {
        return variant;
    };
    let reference = content["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/"));
    let content = reference.and_then(|name| definitions.get(name)).unwrap_or(content);
    let content = content.as_object().cloned().unwrap_or_default();
    // The tag is a pattern, to which `rewrite` adds no placeholder. The placeholder is the last alternative of the
    // whole enum.
    let tag = json!({ "type": "string", "pattern": format!("^{name}$") });
    let tag = Map::from_iter([
        ("properties".to_owned(), json!({ "kind": tag })),
        ("required".to_owned(), json!(["kind"])),
    ]);
    let mut schema = merged([tag, content]);
    schema.extend(variant.get("description").map(|text| ("description".to_owned(), text.clone())));
    Json::Object(schema)
}
