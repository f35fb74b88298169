//! Variables of a scenario.

/// Index of a variable in its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VariableId(pub usize);

/// How long a variable keeps its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VariableScope {
    /// For one call.
    #[default]
    Call,
    /// For all calls of one user.
    User,
    /// For the whole run.
    Global,
}

/// A variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptVariable {
    /// Its name, without `$`.
    pub name: String,
    /// How long it keeps its value.
    pub scope: VariableScope,
    /// Number of uses in the scenario.
    pub uses: usize,
}

/// All variables of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VariableTable(Vec<ScriptVariable>);

impl VariableTable {
    /// The variable with this name, counted as used. It is added if unknown.
    pub fn used(&mut self, name: &str) -> VariableId {
        let id = self.declared(name, VariableScope::Call);
        self.0[id.0].uses += 1;
        id
    }

    /// The variable with this name, without counting a use. It is added with this scope if unknown. A known variable
    /// keeps its scope.
    pub fn declared(&mut self, name: &str, scope: VariableScope) -> VariableId {
        let name = name.trim();
        let place = self.0.iter().position(|variable| variable.name == name).unwrap_or_else(|| {
            self.0.push(ScriptVariable { name: name.to_owned(), scope, uses: 0 });
            self.0.len() - 1
        });
        VariableId(place)
    }

    /// The variable with this name, if known.
    pub fn find(&self, name: &str) -> Option<VariableId> {
        self.0.iter().position(|variable| variable.name == name.trim()).map(VariableId)
    }

    /// All variables.
    pub fn iter(&self) -> impl Iterator<Item = &ScriptVariable> {
        self.0.iter()
    }
}
