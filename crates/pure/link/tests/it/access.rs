//! Compares the documentation of access lines with the code.

use netrig_link::{LineSettings, Preset, Queue, asymmetry};

const PAGE: &str = include_str!("../../../../../docs/models/access.md");

fn room(line: &LineSettings) -> String {
    match &line.queue {
        Queue::Fifo(fifo) => fifo.time.unwrap().to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_page_has_every_preset_as_it_is() {
    for preset in Preset::ALL {
        let [up, down] = preset.lines();
        let mtu = down.mtu.unwrap();
        let k = asymmetry(&down, &up, u32::try_from(mtu.bytes()).unwrap(), 52);
        let row = format!(
            "| `{}` | {} | {} | `{}` | {}, {} | {} | {} B | {k:.2} |",
            preset.name(),
            down.rate,
            up.rate,
            down.framing.name(),
            down.delay,
            up.delay,
            room(&down),
            mtu.bytes()
        );
        assert!(PAGE.contains(&row), "the page does not have\n{row}");
        assert_eq!(room(&up), room(&down));
    }
}
