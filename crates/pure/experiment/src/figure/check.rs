//! Checks of a figure in a file.

use netrig_stats::theory;

use super::course::quantities;
use super::expression::Expression;
use super::spec::{FigureSpec, LIKENESS, TheorySpec};
use crate::Of;
use crate::check::{SpecError, one_of, refuse};
use crate::claim::selection::unknown_factor;
use crate::judge::Design;
use crate::response::amount;

/// The most levels of a factor that is shown as panels. A reader cannot compare more panels.
const MOST_PANELS: usize = 12;

/// The most columns of a grid. With more columns, panels would be narrower than their labels.
const MOST_COLUMNS: usize = 6;

impl FigureSpec {
    /// Checks the figure. Returns its faults, each with its field.
    pub fn check(&self, design: &Design) -> Vec<SpecError> {
        let mut errors = Vec::new();
        if self.y.is_empty() {
            refuse(&mut errors, "y", "a figure shows at least one response");
        }
        if self.is_trace() {
            self.check_trace(&mut errors)
        } else if self.is_watched() {
            self.check_watched(&mut errors)
        } else {
            self.check_responses(design, &mut errors)
        }
        self.check_shown(design, &mut errors);
        errors.extend(self.at.check("where", &design.factors));
        self.check_loose_factors(design, &mut errors);
        errors.extend(self.paper.as_ref().and_then(|group| design.check_paper("paper", group)));
        self.theory.0.iter().for_each(|spec| self.check_theory(spec, design, &mut errors));
        errors
    }

    /// Checks that each factor has one role in the figure, and that panels and rows are few enough to be
    /// compared.
    fn check_shown(&self, design: &Design, errors: &mut Vec<SpecError>) {
        let mut shown = vec![self.x.as_str()];
        for (field, names) in [("series", &self.series), ("panels", &self.panels), ("rows", &self.rows)] {
            for name in &names.0 {
                let Some(factor) = design.factor(name) else {
                    refuse(errors, field, unknown_factor(name, &design.factors));
                    continue;
                };
                if shown.contains(&name.as_str()) {
                    refuse(errors, field, format!("`{name}` is shown in another way already"));
                }
                shown.push(name);
                let levels = self.at.levels(factor).count();
                if field != "series" && levels > MOST_PANELS {
                    let why = format!(
                        "`{name}` has {levels} levels: more than {MOST_PANELS} panels cannot be compared; choose some \
                         with `where`"
                    );
                    refuse(errors, field, why);
                }
            }
        }
        let columns = self.keys(&self.panels.0, design).len();
        if !self.rows.is_empty() && (MOST_COLUMNS + 1..=MOST_PANELS).contains(&columns) {
            let why = format!(
                "{columns} columns: a grid has room for {MOST_COLUMNS}; what has more levels can be its `rows`"
            );
            refuse(errors, "panels", why);
        }
    }

    fn check_trace(&self, errors: &mut Vec<SpecError>) {
        let known: Vec<&str> = quantities().map(|quantity| quantity.name).collect();
        for name in &self.y.0 {
            if !known.contains(&name.as_str()) {
                let what = format!("there is no quantity `{name}`");
                refuse(errors, "y", one_of(&what, name, &known));
            }
        }
        if self.of.is_none() {
            refuse(
                errors,
                "of",
                "a figure over `time` needs to know whose trace it shows: `flow.<name>` or `link.<name>`",
            );
        }
        if !self.theory.is_empty() {
            refuse(errors, "theory", "there are no curves over `time`");
        }
    }

    fn check_watched(&self, errors: &mut Vec<SpecError>) {
        let known = LIKENESS.map(|(name, _)| name);
        for name in self.y.0.iter().filter(|name| !known.contains(&name.as_str())) {
            refuse(errors, "y", one_of(&format!("a picture has no `{name}`"), name, &known));
        }
        if self.y.0.len() > 1 {
            refuse(errors, "y", "one axis cannot show both `ssim` and `psnr`");
        }
        if !matches!(self.of, Some(Of::Flow(_))) {
            refuse(errors, "of", "a figure over `picture` needs to know which video it shows: `flow.<name>`");
        }
        if !self.theory.is_empty() {
            refuse(errors, "theory", "there are no curves over `picture`");
        }
    }

    fn check_responses(&self, design: &Design, errors: &mut Vec<SpecError>) {
        match design.factor(&self.x) {
            Some(_) => {}
            None => refuse(errors, "x", unknown_factor(&self.x, &design.factors)),
        }
        for name in &self.y.0 {
            if design.response(name).is_none() {
                refuse(errors, "y", design.unknown_response(name));
            }
        }
        let units: Vec<&str> = self.y.0.iter().map(|name| design.unit_of(name)).collect();
        if let Some(other) = units.iter().find(|unit| amount::factor(unit, units[0]).is_err()) {
            refuse(errors, "y", format!("one axis cannot show both {} and {other}", units[0]));
        }
        if self.of.is_some() {
            refuse(errors, "of", "only a figure over `time` or `picture` is of a subject");
        }
    }

    /// Reports factors with several levels that the figure neither shows nor selects, so that several points would
    /// share a position.
    fn check_loose_factors(&self, design: &Design, errors: &mut Vec<SpecError>) {
        for factor in design.factors.iter().filter(|factor| !self.distinguishes(&factor.name)) {
            let levels = self.at.levels(factor).count();
            if levels > 1 {
                let why = format!(
                    "factor `{}` has {levels} levels: name it in `series`, in `panels` or in `where`",
                    factor.name
                );
                refuse(errors, "x", why);
            }
        }
    }

    fn check_theory(&self, spec: &TheorySpec, design: &Design, errors: &mut Vec<SpecError>) {
        errors.extend(spec.at.check("theory.where", &design.factors));
        let Some(curve) = theory::curve(&spec.curve) else {
            let known: Vec<&str> = theory::curves().map(|curve| curve.name).collect();
            let what = format!("there is no curve `{}`", spec.curve);
            refuse(errors, "theory.curve", one_of(&what, &spec.curve, &known));
            return;
        };
        let known: Vec<&str> = curve.parameters.iter().map(|parameter| parameter.name).collect();
        for (name, expression) in &spec.parameters {
            let field = format!("theory.with.{name}");
            if !known.contains(&name.as_str()) {
                let what = format!("`{}` has no parameter `{name}`", curve.name);
                refuse(errors, field.clone(), one_of(&what, name, &known));
            }
            check_names(expression, &field, design, errors);
        }
        if let Some(plus) = &spec.plus {
            check_names(plus, "theory.plus", design, errors);
        }
        let own_x = curve.x().name;
        for parameter in curve.parameters.iter().filter(|p| p.default.is_none() && p.name != own_x) {
            if !spec.parameters.contains_key(parameter.name) {
                let why = format!(
                    "`{}` needs `{}`: {} ({})",
                    curve.name, parameter.name, parameter.doc, parameter.unit
                );
                refuse(errors, "theory.with", why);
            }
        }
        if let Some(unit) = self.y.0.first().map(|name| design.unit_of(name))
            && amount::factor(curve.unit, unit).is_err()
        {
            refuse(errors, "theory", format!("`{}` is in {}, the y axis in {unit}", curve.name, curve.unit));
        }
    }
}

/// Checks that every name of an expression is a factor or a response.
fn check_names(expression: &Expression, field: &str, design: &Design, errors: &mut Vec<SpecError>) {
    for name in expression.names() {
        if design.factor(name).is_none() && design.response(name).is_none() {
            refuse(errors, field, unknown_factor(name, &design.factors));
        }
    }
}
