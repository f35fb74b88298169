//! Valid files: points, scenarios and runs.

use std::collections::BTreeSet;

use netrig_core::{Direction, Duration, InFlight, Instant, LinkEvent, Rate, Size, Waiting};
use netrig_experiment::{
    Action, Assignment, Carrier, Experiment, Fragmentation, Host, LinkSettings, Plan, Scenario, SetError,
    TimedEvent, TypedLevel,
};
use netrig_link::conditioning::Hosts;
use netrig_link::{Framing, LineSettings, Preset, Queue};
use netrig_traffic::{ReadSteps, Reads};

const MM1: &str = include_str!("files/mm1.toml");
const LINK_DOWN: &str = include_str!("files/link-down.toml");
const DUMBBELL: &str = include_str!("files/dumbbell.toml");
const CONDITIONED: &str = include_str!("files/conditioned.toml");
const ACCESS: &str = include_str!("files/access.toml");

fn parse(text: &str) -> Experiment {
    Experiment::parse("test.toml", text).unwrap_or_else(|diagnostics| panic!("{diagnostics}"))
}

fn set(text: &str, levels: &str) -> Result<Plan, SetError> {
    Ok(parse(text).set(&Assignment::parse(levels)?)?.plan())
}

/// The scenario of the only point if the factors have these levels.
fn scenario(text: &str, levels: &str) -> Scenario {
    let plan = set(text, levels).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(plan.len(), 1, "`{levels}` leaves more than one point");
    Scenario::clone(&plan.scenario(0).unwrap())
}

fn seconds(s: f64) -> Instant {
    Instant::ZERO + Duration::from_secs_f64(s)
}

#[test]
fn good_files_are_accepted_without_a_warning() {
    for text in [MM1, DUMBBELL, CONDITIONED] {
        assert!(parse(text).warnings().is_empty(), "{}", parse(text).warnings());
    }
}

#[test]
fn the_overload_of_the_link_down_study_is_told() {
    // Six sources, each with an object of 10 KB every 45 ms, share a line of half a megabit per second: 1333 KB/s are
    // offered to 62.5 KB/s.
    let warnings = parse(LINK_DOWN).warnings().to_string();
    assert!(warnings.contains("`web` offers 1.3 MB/s to a line of 62.5 KB/s (link `primary`)"), "{warnings}");
    assert!(warnings.contains("at 168 of 168 points"), "{warnings}");
}

#[test]
fn blocks_of_points_are_united_in_the_order_of_the_file() {
    let plan = parse(LINK_DOWN).plan();
    // Three transports and four outages are combined with 7 inter-arrival times at one shape, and with 8 shapes at one
    // inter-arrival time. The two sets share one combination.
    assert_eq!(plan.len(), 3 * 4 * (7 + 8 - 1));
    let points: Vec<String> = (0..plan.len()).map(|i| plan.point(i).to_string()).collect();
    assert_eq!(points.iter().collect::<BTreeSet<_>>().len(), points.len());
    let first = "down_for = 0 s, interarrival = 45 ms, profile = ns2, shape = 1.5, transport = tcp";
    assert_eq!(points[0], first);
    assert_eq!(plan.label(0), Some("against the inter-arrival time"));
    assert_eq!(plan.label(83), Some("against the inter-arrival time"));
    assert_eq!(plan.label(84), Some("against the shape"));
    // The first factor of the file changes slowest, the last fastest.
    assert!(points[1].contains("interarrival = 100 ms"), "{}", points[1]);
    assert!(points[7].contains("down_for = 5 s"), "{}", points[7]);
    assert!(points[28].contains("transport = sctp"), "{}", points[28]);
    assert_eq!(plan.most_runs(), 1680);
}

#[test]
fn levels_keep_their_writing_and_are_compared_by_meaning() {
    let plan = set(LINK_DOWN, "interarrival=0.1s,shape=1.50,down_for=5s,transport=tcp").unwrap();
    assert_eq!(plan.len(), 1);
    let expected = "down_for = 5 s, interarrival = 100 ms, profile = ns2, shape = 1.5, transport = tcp";
    assert_eq!(plan.point(0).to_string(), expected);
}

/// A number in quotes is a text, which keeps its leading zeros. A number with a unit is an amount.
#[test]
fn a_level_is_the_text_or_the_number_that_the_file_has() {
    let file = |levels: &str| {
        let factor = format!("[factors]\nwho = [{levels}]");
        MM1.replacen("[factors]", &factor, 1).replacen("500 B", "${who} B", 1)
    };
    let json = |plan: &Plan, point: usize| {
        serde_json::to_string(&TypedLevel(plan.point(point).level("who").unwrap())).unwrap()
    };
    let text = file("\"0100\", \"200\"");
    let plan = parse(&text).plan();
    assert_eq!([json(&plan, 0), json(&plan, 3)], ["\"0100\"", "\"200\""]);
    assert_eq!(plan.point(0).to_string(), "load = 4.5 ms, who = 0100");
    let plan = parse(&file("100, 200")).plan();
    assert_eq!([json(&plan, 0), json(&plan, 3)], ["100", "200"]);
    // Where a level replaces a placeholder, a text and a number have the same effect.
    assert_eq!(scenario(&text, "who=0100,load=5 ms"), scenario(&file("100, 200"), "who=100,load=5 ms"));
    // On a command line, a level has the type of the file's levels. Two texts are one level only if they are equal.
    let set = |levels: &str| set(&text, levels).unwrap();
    assert_eq!([json(&set("who=0100"), 0), json(&set("who=300"), 0)], ["\"0100\"", "\"300\""]);
    assert_eq!(set("who=0100,100,load=5 ms").len(), 2);
    // A person cannot distinguish a number from a text that looks like it, so both together are refused.
    let twice = Experiment::parse("test.toml", file("100, 200, \"0100\"")).unwrap_err().to_string();
    assert!(twice.contains("the level `0100` is listed twice"), "{twice}");
    // A selection may write the level as a text or as a number.
    let chosen = text.replace("where = { load = \"8 ms\" }", "where = { who = 200 }");
    assert_ne!(chosen, text);
    parse(&chosen);
}

#[test]
fn a_constant_can_be_set_to_what_the_file_does_not_have() {
    let plan = set(MM1, "load=2 ms,1ms").unwrap();
    assert_eq!(plan.len(), 2);
    assert_eq!(plan.point(1).level("load").unwrap().text(), "1 ms");
    let plan =
        set(LINK_DOWN, "profile=rfc,linux,transport=tcp,down_for=0s,interarrival=45ms,shape=1.5").unwrap();
    assert_eq!(plan.len(), 2);
    assert_ne!(plan.scenario(0).unwrap().flows[0].carrier, plan.scenario(1).unwrap().flows[0].carrier);
    // A number stays a number, here the count of nodes.
    assert_eq!(scenario(DUMBBELL, "pairs=3").nodes.len(), 3 + 2 + 3);
}

/// Equivalent levels are set once: in the form of the file if the file has the level, otherwise in the first given
/// form.
#[test]
fn equal_levels_are_set_once_however_they_are_written() {
    let levels = |file: &str, levels: &str, factor: &str| {
        let plan = set(file, levels).unwrap_or_else(|error| panic!("{levels}: {error}"));
        let all: BTreeSet<_> =
            (0..plan.len()).map(|i| plan.point(i).level(factor).unwrap().to_string()).collect();
        all.into_iter().collect::<Vec<_>>()
    };
    assert_eq!(levels(LINK_DOWN, "down_for=5000ms,5s,0.0 s", "down_for"), ["0 s", "5 s"]);
    assert_eq!(levels(MM1, "load=10 s,10000 ms", "load"), ["10 s"]);
    assert_eq!(levels(DUMBBELL, "pairs=3,3.0,0x3,1_2", "pairs"), ["12", "3"]);
}

#[test]
fn a_level_of_another_type_is_not_set() {
    for (file, levels, given) in [
        (LINK_DOWN, "down_for=5", "a number without a unit"),
        (LINK_DOWN, "down_for=5 KB", "a number in KB"),
        (LINK_DOWN, "transport=5", "a number without a unit"),
        (DUMBBELL, "pairs=true", "true or false"),
        (DUMBBELL, "pairs=2 s", "a number in s"),
    ] {
        let error = set(file, levels).unwrap_err();
        assert!(
            matches!(&error, SetError::OtherType { given: told, .. } if told == given),
            "{levels}: {error}"
        );
    }
    // No key reads a factor that occurs only in `where`, so no key would refuse the word.
    let compared = MM1
        .replace("[replications]", "n = [1, 2.5]\nb = [true, false]\n\n[replications]")
        .replace("[flow.packets]", "[flow.packets]\nwhere = { n = [1, 2.5], b = [true, false] }");
    for levels in ["n=one", "n=nan", "n=inf", "n=-inf", "b=TRUE", "b=on"] {
        let error = set(&compared, levels).unwrap_err();
        let SetError::OtherType { given, .. } = &error else { panic!("{levels}: {error}") };
        assert_eq!(given, "a text", "{levels}");
    }
    assert_eq!(set(&compared, "n=7,b=true,load=5 ms").unwrap().len(), 1);
    for levels in ["pairs=nan", "pairs=inf"] {
        assert!(matches!(set(DUMBBELL, levels), Err(SetError::OtherType { .. })), "{levels}");
    }
    // A word may replace a number only if the constant accepts the word (`unbounded`).
    for (file, levels) in [(LINK_DOWN, "down_for=tcp"), (DUMBBELL, "pairs=two")] {
        assert!(matches!(set(file, levels), Err(SetError::Refused(_))), "{levels}");
    }
}

#[test]
fn a_constant_set_to_several_levels_is_told_apart_in_tables_and_figures() {
    let experiment = parse(LINK_DOWN).set(&Assignment::parse("profile=ns2,linux").unwrap()).unwrap();
    assert_eq!(experiment.design.tables[0].1.rows.0, ["transport", "down_for", "profile"]);
    assert_eq!(experiment.design.figures[0].1.panels.0, ["down_for", "profile"]);
    // Another single level does not change tables and figures. It is not a fault that the other levels of the file are
    // unused.
    let experiment =
        parse(LINK_DOWN).set(&Assignment::parse("profile=linux,transport=tcp").unwrap()).unwrap();
    assert_eq!(experiment.design.tables[0].1.rows.0, ["transport", "down_for"]);
    assert_eq!(experiment.design.claims.len(), 1);
    assert!(!experiment.warnings().to_string().contains("no flow"), "{}", experiment.warnings());
}

#[test]
fn a_level_that_no_block_has_is_refused() {
    let error = set(LINK_DOWN, "shape=1.2,interarrival=100ms").unwrap_err();
    assert!(matches!(&error, SetError::NoPoints { factor, .. } if factor == "interarrival"), "{error}");
    assert!(matches!(set(LINK_DOWN, "shape=3"), Ok(plan) if plan.len() == 12), "new in an open block");
}

#[test]
fn replications_share_their_seeds_over_points() {
    let mut experiment = parse(&MM1.replacen("format = 1", "format = 1\nseed = 7", 1));
    let plan = experiment.plan();
    assert_eq!((plan.replications().min, plan.replications().max), (10, 40));
    let seeds = |plan: &Plan, n| [0, 2].map(|point| plan.run(point, n).unwrap().seed);
    assert_eq!(seeds(&plan, 1), [7, 7]);
    assert_eq!(seeds(&plan, 40), [46, 46]);
    experiment.seed = 100;
    assert_eq!(seeds(&experiment.plan(), 2), [101, 101]);
}

#[test]
fn replications_of_a_point_share_its_scenario() {
    let plan = parse(DUMBBELL).plan();
    let [first, second] = [1, 2].map(|n| plan.run(0, n).unwrap().scenario);
    assert!(std::sync::Arc::ptr_eq(&first, &second));
}

#[test]
fn counts_are_wired_index_to_index() {
    let scenario = scenario(DUMBBELL, "pairs=10");
    let node = |name: &str| scenario.nodes.iter().position(|node| node.name == name).unwrap();
    let link = |name: &str| scenario.links.iter().position(|link| link.name == name).unwrap();
    assert_eq!(scenario.nodes.len(), 22);
    assert_eq!(scenario.links.len(), 21);
    assert_eq!(scenario.links[link("access#3")].ends, [node("sender#3"), node("left")]);
    assert_eq!(scenario.links[link("exit#10")].ends, [node("right"), node("receiver#10")]);
    let flow = &scenario.flows[6];
    assert_eq!((flow.name.as_str(), flow.group.as_str()), ("file#7", "file"));
    assert_eq!([flow.from, flow.to], [node("sender#7"), node("receiver#7")]);
    assert_eq!(flow.paths.len(), 1);
    assert_eq!(flow.paths[0].name, "access#7>bottleneck>exit#7");
    assert!(flow.paths[0].hops.iter().all(|hop| hop.direction == Direction::Forward));
}

#[test]
fn a_way_back_differs_where_it_says_so() {
    let scenario = scenario(DUMBBELL, "pairs=2,capacity=2.5");
    let link = scenario.links.iter().find(|link| link.name == "bottleneck").unwrap();
    assert_eq!(link.forward.rate().map(|rate| rate.bits_per_s()), Some(2_500_000));
    assert_eq!(link.backward.rate(), link.forward.rate());
    assert_eq!([link.forward.delay(), link.backward.delay()], [20, 30].map(Duration::from_millis));
    assert!(link.forward.loss().is_none() && link.backward.loss().is_some());
}

fn line(settings: &LinkSettings) -> &LineSettings {
    let LinkSettings::Line(line) = settings else { panic!("{settings:?} is no line") };
    line
}

/// A link's own settings override its preset in both directions, and `reverse` overrides both for the reverse
/// direction.
#[test]
fn a_preset_gives_what_a_link_does_not_say() {
    let scenario = scenario(ACCESS, "line=adsl2+,load=0%");
    let [up, down] = [&scenario.links[0].forward, &scenario.links[0].backward].map(line);
    assert_eq!([up, down].map(|line| line.rate.bits_per_s()), [800_000, 16_000_000]);
    assert_eq!([up, down].map(|line| line.framing), [Framing::PppoeAtm; 2]);
    assert_eq!([up, down].map(|line| line.delay), [Duration::from_millis(5); 2]);
    assert_eq!([up, down].map(|line| line.mtu.map(|mtu| mtu.bytes())), [Some(1492); 2]);
    let room = |line: &LineSettings| match &line.queue {
        Queue::Fifo(fifo) => fifo.time,
        other => panic!("{other:?}"),
    };
    assert_eq!([up, down].map(room), [250, 40].map(|ms| Some(Duration::from_millis(ms))));
    assert!(up.loss.is_none() && down.loss.is_some());
    let faster = ACCESS.replacen("delay = \"5 ms\"", "rate = \"1 Gbit/s\"", 1);
    let link = &self::scenario(&faster, "line=adsl2+,load=0%").links[0];
    assert_eq!([&link.forward, &link.backward].map(|way| line(way).rate.bits_per_s()), [1_000_000_000; 2]);
}

#[test]
fn all_presets_are_lines() {
    let text =
        ACCESS.replacen("delay = \"5 ms\"\n", "", 1).replacen("[\"adsl2+\", \"docsis\"]", "\"geo\"", 1);
    let bare = text.lines().filter(|line| !line.starts_with("reverse")).collect::<Vec<_>>().join("\n");
    for preset in Preset::ALL {
        let scenario = scenario(&bare, &format!("line={},load=0%", preset.name()));
        let link = &scenario.links[0];
        assert_eq!([&link.forward, &link.backward].map(line), preset.lines().each_ref());
    }
}

#[test]
fn what_is_varied_of_a_host_is_read() {
    let host = |load: &str| scenario(ACCESS, &format!("line=docsis,load={load}")).nodes[0].host.clone();
    let Host { load, quota, memory, mtu, mss, window, fragmentation, sysctls } = host("90%");
    assert_eq!([load, quota].map(|share| share.map(|share| share.get())), [Some(0.9), Some(0.8)]);
    assert_eq!(
        [memory, mtu, mss, window].map(|size| size.map(|size| size.bytes())),
        [Some(64_000_000), Some(576), Some(500), Some(8_000)]
    );
    assert_eq!(fragmentation, Fragmentation::Allowed);
    let told: Vec<_> = sysctls.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(told, [("net.core.somaxconn", "64"), ("net.ipv4.tcp_rmem", "4096 65536 65536")]);
    // A load of zero requests no processor time, but the processors are part of the measurement.
    assert!(host("0%").is_constrained());
    let bare = ACCESS.lines().filter(|line| !line.starts_with("quota")).collect::<Vec<_>>().join("\n");
    assert_eq!(scenario(&bare, "line=docsis,load=0%").nodes[0].host.only_real(), Some("memory"));
    assert_eq!(scenario(ACCESS, "line=docsis,load=0%").nodes[1].host.only_real(), None);
}

#[test]
fn buffers_of_sockets_are_of_flows() {
    let flows = scenario(ACCESS, "line=docsis,load=0%").flows;
    let buffers = |place: usize| [flows[place].sockets.send_buffer, flows[place].sockets.receive_buffer];
    assert_eq!(buffers(0).map(|size| size.map(|size| size.bytes())), [Some(131_072), None]);
    assert_eq!(buffers(1).map(|size| size.map(|size| size.bytes())), [None, Some(65_536)]);
}

#[test]
fn every_interface_has_an_address_of_its_own() {
    for (text, first) in [(LINK_DOWN, "10.0.0.1"), (DUMBBELL, "fd00::1")] {
        let scenario = parse(text).plan().scenario(0).unwrap();
        let all: Vec<_> = scenario.links.iter().flat_map(|link| link.addresses).collect();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
        assert_eq!(all[0].to_string(), first);
        assert_eq!(scenario.address(scenario.links[1].ends[1], 1), Some(all[3]));
        assert_eq!(scenario.address(scenario.nodes.len(), 1), None);
    }
    let scenario = parse(LINK_DOWN).plan().scenario(0).unwrap();
    // The link has the second network of four addresses.
    assert_eq!(scenario.links[1].addresses.map(|address| address.to_string()), ["10.0.0.5", "10.0.0.6"]);
}

/// In rules and classes of either direction, the name of a node means the addresses of all its interfaces.
#[test]
fn rules_and_classes_know_nodes_by_their_addresses() {
    let scenario = parse(CONDITIONED).plan().scenario(0).unwrap();
    let prefixes = |hosts: Option<&Hosts>| serde_json::to_value(hosts.unwrap()).unwrap();
    let LinkSettings::Line(forward) = &scenario.links[1].forward else { panic!("it is a line") };
    assert_eq!(prefixes(forward.condition[0].matches.src.as_ref()), "10.0.0.1");
    let LinkSettings::Line(backward) = &scenario.links[1].backward else { panic!("it is a line") };
    let of_router = serde_json::json!(["10.0.0.2", "10.0.0.5"]);
    assert_eq!(prefixes(backward.classes[0].matches.as_ref().unwrap().dst.as_ref()), of_router);
    assert!(backward.condition.is_empty());
}

fn link_events(events: &[TimedEvent]) -> Vec<(Instant, usize, Direction, LinkEvent)> {
    let link = |event: &TimedEvent| match event.action {
        Action::Link { link, direction, event: change } => Some((event.at, link, direction, change)),
        _ => None,
    };
    events.iter().filter_map(link).collect()
}

#[test]
fn an_outage_is_down_and_up_in_both_directions() {
    let scenario = scenario(LINK_DOWN, "down_for=10s,transport=tcp,interarrival=45ms,shape=1.5");
    let down = LinkEvent::Down { queue: Waiting::Drop, in_flight: InFlight::Lose };
    let expected = [
        (seconds(50.0), 0, Direction::Forward, down),
        (seconds(50.0), 0, Direction::Backward, down),
        (seconds(60.0), 0, Direction::Forward, LinkEvent::Up),
        (seconds(60.0), 0, Direction::Backward, LinkEvent::Up),
    ];
    assert_eq!(link_events(&scenario.events), expected);
}

#[test]
fn an_outage_of_no_length_is_no_event() {
    for transport in ["tcp", "sctp-multihomed"] {
        let levels = format!("down_for=0s,transport={transport},interarrival=45ms,shape=1.5");
        assert_eq!(scenario(LINK_DOWN, &levels).events, []);
    }
}

#[test]
fn a_switch_of_the_primary_path_goes_back_after_its_time() {
    let levels = "down_for=20s,transport=sctp-multihomed,interarrival=45ms,shape=1.5";
    let scenario = scenario(LINK_DOWN, levels);
    assert!(matches!(scenario.flows[0].carrier, Carrier::Sctp(_)));
    let names: Vec<&str> = scenario.flows[0].paths.iter().map(|path| path.name.as_str()).collect();
    assert_eq!(names, ["primary", "alternate"]);
    let switches: Vec<_> = scenario
        .events
        .iter()
        .filter_map(|event| match event.action {
            Action::SetPrimary { node, link } => Some((event.at, node, link)),
            _ => None,
        })
        .collect();
    assert_eq!(switches, [(seconds(50.0), 0, 1), (seconds(70.0), 0, 0)]);
}

#[test]
fn an_interface_flaps_with_its_link() {
    let scenario = scenario(DUMBBELL, "pairs=2");
    let interface: Vec<_> = scenario
        .events
        .iter()
        .filter_map(|event| match event.action {
            Action::Interface { node, link, up } => Some((event.at, node, link, up)),
            _ => None,
        })
        .collect();
    let expected: Vec<_> =
        [(45.0, false), (45.5, true), (46.5, false), (47.0, true), (48.0, false), (48.5, true)]
            .into_iter()
            .map(|(at, up)| (seconds(at), 1, 1, up))
            .collect();
    assert_eq!(interface, expected);
    // When an endpoint is notified that its interface is down or up, the line is already down or up.
    for (n, event) in scenario.events.iter().enumerate() {
        if let Action::Interface { link, up, .. } = event.action {
            let last =
                link_events(&scenario.events[..n]).into_iter().rfind(|(_, changed, ..)| *changed == link);
            assert_eq!(last.map(|(.., change)| change == LinkEvent::Up), Some(up));
        }
    }
}

#[test]
fn a_change_for_a_while_ends_with_what_the_line_had() {
    let scenario = scenario(DUMBBELL, "pairs=2");
    let bottleneck = scenario.links.iter().position(|link| link.name == "bottleneck").unwrap();
    let changes: Vec<_> =
        link_events(&scenario.events).into_iter().filter(|(_, link, ..)| *link == bottleneck).collect();
    let rate = |bits_per_s| LinkEvent::Rate { bits_per_s };
    let expected = [
        (seconds(30.0), bottleneck, Direction::Forward, rate(1_000_000)),
        (seconds(40.0), bottleneck, Direction::Forward, rate(10_000_000)),
    ];
    assert_eq!(changes, expected);
}

#[test]
fn a_link_that_comes_up_and_goes_down_at_once_is_down() {
    // The later outage is first in the file.
    let text = format!(
        "{DUMBBELL}\n[[event]]\nat = \"15 s\"\nlink = \"exit#1\"\ndo = {{ down_for = \"5 s\" }}\n\
         [[event]]\nat = \"10 s\"\nlink = \"exit#1\"\ndo = {{ down_for = \"5 s\", queue = \"keep\" }}\n"
    );
    let scenario = scenario(&text, "pairs=2");
    let exit = scenario.links.iter().position(|link| link.name == "exit#1").unwrap();
    let at_15: Vec<_> = link_events(&scenario.events)
        .into_iter()
        .filter(|(at, link, direction, _)| {
            (*at, *link, *direction) == (seconds(15.0), exit, Direction::Forward)
        })
        .map(|(.., change)| change)
        .collect();
    assert_eq!(at_15, [LinkEvent::Up, LinkEvent::Down { queue: Waiting::Drop, in_flight: InFlight::Lose }]);
}

#[test]
fn events_come_in_the_order_of_time() {
    for (text, levels) in
        [(DUMBBELL, "pairs=2"), (LINK_DOWN, "down_for=5s,transport=sctp,interarrival=45ms,shape=1.5")]
    {
        assert!(scenario(text, levels).events.is_sorted_by_key(|event| event.at));
    }
}

/// The events of a file with two hosts, two paths between them, and these `[[event]]` blocks.
fn two_paths(events: &[&str]) -> Result<Vec<TimedEvent>, String> {
    let line =
        "between = [\"client\", \"server\"]\nrate = \"1 Mbit/s\"\nqueue = { kind = \"fifo\", packets = 9 }\n";
    let events: String = events.iter().map(|event| format!("[[event]]\nat = \"1 s\"\n{event}\n")).collect();
    let text = format!(
        "format = 1\nname = \"events\"\nduration = \"10 s\"\n[replications]\ncount = 1\n[node.client]\n[node.server]\n\
         [link.primary]\n{line}[link.alternate]\n{line}\
         [transport.t]\nkind = \"sctp\"\npaths = [\"primary\", \"alternate\"]\n\
         [flow.file]\nfrom = \"client\"\nto = \"server\"\ntransport = \"t\"\napplication = {{ kind = \"bulk\" }}\n\
         [response.goodput]\nof = \"flow.file\"\nmetric = \"goodput\"\n{events}"
    );
    let experiment = Experiment::parse("test.toml", &text).map_err(|problems| problems.to_string())?;
    Ok(experiment.plan().scenario(0).unwrap().events.clone())
}

#[test]
fn a_run_has_a_million_events_of_any_kind_and_no_more() {
    let flap = |times: u32, keys: &str| {
        format!(
            "link = \"primary\"\ndo = {{ flap = {{ down = \"1 ns\", up = \"1 ns\", times = {times} }}{keys} }}"
        )
    };
    let refused = |events: &[&str]| {
        let problems = two_paths(events).unwrap_err();
        assert!(problems.contains("more than 1000000 events"), "{events:?}: {problems}");
    };
    for (most, keys, events) in [
        (500_000, ", direction = \"forward\"", 1_000_000),
        (250_000, "", 1_000_000),
        (166_666, ", where = \"client\"", 999_996),
    ] {
        assert_eq!(two_paths(&[&flap(most, keys)]).unwrap().len(), events, "{keys}");
        refused(&[&flap(most + 1, keys)]);
    }
    // The outages leave room for four events, which events of the other kinds then fill.
    let many = flap(499_998, ", direction = \"forward\"");
    let values =
        "link = \"alternate\"\ndo = { rate = \"2 Mbit/s\", delay = \"1 ms\", direction = \"forward\" }";
    let primary = "node = \"client\"\ndo = { primary = \"alternate\", for = \"1 s\" }";
    let forever = "node = \"client\"\ndo = { primary = \"alternate\" }";
    assert_eq!(two_paths(&[&many, values, primary]).unwrap().len(), 1_000_000);
    refused(&[&many, values, primary, forever]);
    refused(&[&many, values, forever, primary]);
    refused(&[&many, values, values, forever]);
    refused(&[&many, primary, "link = \"alternate\"\ndo = { loss = \"1 %\", for = \"1 s\" }"]);
}

#[test]
fn datagrams_need_no_transport() {
    let text = MM1.replacen("transport = \"datagrams\"\n", "", 1);
    let flow = scenario(&text, "load=5ms").flows[0].clone();
    assert_eq!((flow.carrier, flow.transport.as_str()), (Carrier::Udp { headers: true }, "udp"));
    assert_eq!(scenario(MM1, "load=5ms").flows[0].carrier, Carrier::Udp { headers: false });
}

#[test]
fn mptcp_is_read_with_the_constants_of_tcp() {
    let text = LINK_DOWN.replacen("kind = \"sctp\"\n", "kind = \"mptcp\"\nmss = \"1 KB\"\n", 1);
    let levels = "transport=sctp,down_for=0s,interarrival=45ms,shape=1.5";
    let Carrier::Mptcp(mptcp) = scenario(&text, levels).flows[0].carrier.clone() else { panic!("not MPTCP") };
    assert_eq!(serde_json::to_value(&mptcp.tcp).unwrap()["mss"], "1 KB");
    assert!(!mptcp.backup && mptcp.sysctls.is_empty());
}

#[test]
fn mptcp_has_backup_paths_and_settings_of_the_kernel() {
    let keys = "kind = \"mptcp\"\nbackup = true\nnet.mptcp.stale_loss_cnt = 2\nnet.mptcp.checksum_enabled = true\n\
                net.mptcp.scheduler = \"default\"\n";
    let text = LINK_DOWN.replacen("kind = \"sctp\"\n", keys, 1);
    let levels = "transport=sctp,down_for=0s,interarrival=45ms,shape=1.5";
    let Carrier::Mptcp(mptcp) = scenario(&text, levels).flows[0].carrier.clone() else { panic!("not MPTCP") };
    assert!(mptcp.backup);
    let settings: Vec<_> =
        mptcp.sysctls.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(settings, [("checksum_enabled", "1"), ("scheduler", "default"), ("stale_loss_cnt", "2")]);
}

#[test]
fn a_constant_that_is_a_number_or_a_word_is_read() {
    let text = LINK_DOWN.replacen(
        "kind = \"tcp\"\n",
        "kind = \"tcp\"\nsend_window = \"${window}\"\ninitial_ssthresh = \"unbounded\"\n",
        1,
    );
    let text = text.replacen("[factors]", "[factors]\nwindow = 45", 1);
    for (window, expected) in [("45", serde_json::json!(45)), ("unbounded", serde_json::json!("unbounded"))] {
        let levels = format!("window={window},transport=tcp,down_for=0s,interarrival=45ms,shape=1.5");
        let Carrier::Tcp(config) = scenario(&text, &levels).flows[0].carrier.clone() else {
            panic!("not TCP")
        };
        let config = serde_json::to_value(config).unwrap();
        assert_eq!(
            (&config["send_window"], &config["initial_ssthresh"]),
            (&expected, &serde_json::json!("unbounded"))
        );
    }
}

#[test]
fn the_kind_of_a_queue_may_be_a_factor() {
    let plan = set(DUMBBELL, "pairs=2,discipline=fifo,red");
    let error = plan.unwrap_err().to_string();
    // A RED queue needs thresholds, so the level cannot be used. The message names the level.
    assert!(error.contains("factor `discipline` has the level `red`"), "{error}");
}

#[test]
fn a_large_sweep_is_planned_without_resolving_it() {
    let levels: Vec<String> = (1..=100).map(|n| format!("\"{n} ms\"")).collect();
    let numbers: Vec<String> = (1..=50).map(|n| n.to_string()).collect();
    let factors = format!(
        "[factors]\ndelay = [{}]\nseconds = [{}]\nrate = [{}]\n",
        levels.join(", "),
        numbers.join(", "),
        numbers.join(", ")
    );
    let text = MM1
        .replacen("[factors]", &factors, 1)
        .replacen("warm_up = \"100 s\"", "", 1)
        .replacen("rate = \"1 Mbit/s\"", "rate = \"${rate} Mbit/s\"\ndelay = \"${delay}\"", 1)
        .replacen("duration = \"1000 s\"", "duration = \"${seconds} s\"", 1);
    let plan = parse(&text).plan();
    assert_eq!(plan.len(), 100 * 50 * 50 * 3);
    let last = plan.run(plan.len() - 1, 1).unwrap();
    assert_eq!(last.scenario.duration, Duration::from_secs(50));
    assert_eq!(last.scenario.links[0].forward.delay(), Duration::from_millis(100));
    // An unusable level is found although not every point was resolved.
    let wrong = text.replacen("\"100 ms\"", "\"100 mm\"", 1);
    let error = Experiment::parse("wrong.toml", wrong).unwrap_err().to_string();
    assert!(error.contains("unknown unit `mm`"), "{error}");
}

#[test]
fn a_run_is_known_by_all_that_decides_it() {
    let run = set(MM1, "load=5ms").unwrap().run(0, 1).unwrap();
    let identity = |run: &netrig_experiment::Run| run.identity("mean", "sim", "1", "0.1.0+abc1234");
    insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!(run.description("mean")) });
    assert_eq!(identity(&run), IDENTITY);
    let mut others = BTreeSet::from([identity(&run)]);
    let again = set(MM1, "load=5ms").unwrap();
    assert_eq!(identity(&again.run(0, 1).unwrap()), IDENTITY);
    assert!(others.insert(identity(&again.run(0, 2).unwrap())), "another seed");
    assert!(others.insert(identity(&set(MM1, "load=8ms").unwrap().run(0, 1).unwrap())), "another scenario");
    assert!(others.insert(run.identity("p95", "sim", "1", "0.1.0+abc1234")), "another reduction");
    assert!(others.insert(run.identity("mean", "vm", "1", "0.1.0+abc1234")), "another substrate");
    assert!(others.insert(run.identity("mean", "sim", "2", "0.1.0+abc1234")), "another kernel");
    assert!(others.insert(run.identity("mean", "sim", "1", "0.1.0+abc1235")), "another build");
    assert!(
        others.insert(run.identity("means", "im", "1", "0.1.0+abc1234")),
        "the same bytes, cut elsewhere"
    );
    // The name of a factor does not change the identity.
    let renamed = MM1.replace("load", "gap");
    assert_eq!(identity(&set(&renamed, "gap=5ms").unwrap().run(0, 1).unwrap()), IDENTITY);
}

/// SHA-256 of the parts, each preceded by its length as eight bytes, least significant first. It was computed from the
/// text of the snapshot with Python's hashlib.
const IDENTITY: &str = "cdf8625c417c6a75a584a977548e29a05bdb0dc037e9c66cc6f420c59b6ec704";

/// A file with a flow from `a` to `b` that has these further keys.
fn read_slowly(keys: &str) -> String {
    format!(
        "format = 1\nname = \"slow\"\nduration = \"9 s\"\n[node.a]\n[node.b]\n[link.line]\nbetween = [\"a\", \"b\"]\n\
         rate = \"1 Mbit/s\"\ndelay = \"1 ms\"\nqueue = {{ kind = \"fifo\", packets = 50 }}\n[transport.tcp]\n\
         kind = \"tcp\"\n[flow.file]\nfrom = \"a\"\nto = \"b\"\n{keys}\n[response.goodput]\nof = \"flow.file\"\n\
         metric = \"goodput\"\n"
    )
}

const OVER_TCP: &str = "transport = \"tcp\"\napplication = { kind = \"bulk\" }\n";

#[test]
fn how_fast_a_receiver_reads_is_a_level_and_no_part_of_other_scenarios() {
    let written =
        |scenario: &Scenario| serde_json::to_value(&scenario.flows[0]).expect("a flow can be written");
    let text = read_slowly(&format!("{OVER_TCP}reads = \"${{reads}}\""));
    let text = text.replacen("[node.a]", "[factors]\nreads = [\"1 Mbit/s\", \"2 Mbit/s\"]\n[node.a]", 1);
    let varied = scenario(&text, "reads=2 Mbit/s");
    assert_eq!(varied.flows[0].reads, Some(Reads::AtRate(Rate::from_bits_per_s(2_000_000))));
    assert!(written(&varied).get("reads").is_some());
    let steps = read_slowly(&format!("{OVER_TCP}reads = {{ bytes = \"64 KB\", every = \"500 ms\" }}"));
    let steps = parse(&steps).plan().scenario(0).unwrap();
    let expected = ReadSteps { bytes: Size::from_bytes(64_000), every: Duration::from_millis(500) };
    assert_eq!(steps.flows[0].reads, Some(Reads::InSteps(expected)));
    let at_once = parse(&read_slowly(OVER_TCP)).plan().scenario(0).unwrap();
    let at_once = written(&at_once);
    assert!(at_once.get("reads").is_none() && at_once.get("application").is_some(), "{at_once}");
}

#[test]
fn a_reader_without_connections_or_that_never_reads_is_refused() {
    let over_tcp = |reads: &str| format!("{OVER_TCP}reads = {reads}");
    let datagrams =
        "application = { kind = \"cbr\", interval = \"1 ms\", size = \"9 B\" }\nreads = \"1 Mbit/s\"";
    for (keys, why) in [
        (datagrams.to_owned(), "this one reads at once"),
        (over_tcp("\"0 bit/s\""), "`reads`: it must be above zero"),
        (over_tcp("{ bytes = \"0 B\", every = \"1 s\" }"), "`reads.bytes`: it must be above zero"),
        (over_tcp("{ bytes = \"1 B\", every = \"0 s\" }"), "`reads.every`: it must be above zero"),
        (over_tcp("\"fast\""), "neither a rate nor a table of `bytes` and `every`"),
    ] {
        let told = Experiment::parse("slow.toml", read_slowly(&keys)).unwrap_err().to_string();
        assert!(told.contains(why), "{told}");
    }
}
