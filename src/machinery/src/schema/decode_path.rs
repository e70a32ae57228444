//! The position of the decoder: a chain of links on the stack, from which the two notations of Kubernetes' messages are
//! made once there is something to say.

use super::types::{Field, TypeId, TypeTable};

#[derive(Clone, Copy)]
pub(super) struct DecodePath<'a> {
    parent: Option<&'a DecodePath<'a>>,
    step: DecodeStep<'a>,
}

#[derive(Clone, Copy)]
enum DecodeStep<'a> {
    Root,
    Field(TypeId, &'a Field),
    Key(&'a str),
    Index(usize),
}

impl<'a> DecodePath<'a> {
    pub(super) const fn root() -> DecodePath<'static> {
        DecodePath {
            parent: None,
            step: DecodeStep::Root,
        }
    }

    const fn step<'b>(&'b self, step: DecodeStep<'b>) -> DecodePath<'b>
    where
        'a: 'b,
    {
        DecodePath {
            parent: Some(self),
            step,
        }
    }

    pub(super) const fn field<'b>(&'b self, owner: TypeId, field: &'b Field) -> DecodePath<'b>
    where
        'a: 'b,
    {
        self.step(DecodeStep::Field(owner, field))
    }

    pub(super) const fn key<'b>(&'b self, key: &'b str) -> DecodePath<'b>
    where
        'a: 'b,
    {
        self.step(DecodeStep::Key(key))
    }

    pub(super) const fn index<'b>(&'b self, index: usize) -> DecodePath<'b>
    where
        'a: 'b,
    {
        self.step(DecodeStep::Index(index))
    }

    /// The field at or above this place, the struct that holds it, and how many list items and map entries lie between.
    pub(super) fn innermost_field(&self) -> Option<(TypeId, &'a Field, usize)> {
        let mut place = self;
        let mut depth = 0;
        loop {
            match place.step {
                DecodeStep::Root => return None,
                DecodeStep::Field(owner, field) => return Some((owner, field, depth)),
                DecodeStep::Key(_) | DecodeStep::Index(_) => depth += 1,
            }
            place = place.parent?;
        }
    }

    /// The names of the fields and of the structs that they are embedded with, joined by dots, without list items and map
    /// keys: `spec.volumes.VolumeSource.secret`.
    pub(super) fn field_path(&self, table: &TypeTable) -> String {
        let mut out = self.parent.map(|parent| parent.field_path(table)).unwrap_or_default();
        if let DecodeStep::Field(owner, field) = self.step {
            if let Some(embedded) = table.embedded_of(owner, &field.name) {
                join(&mut out, embedded);
            }
            join(&mut out, &field.name);
        }
        out
    }

    /// The full path of `name` in the struct at this place: `spec.containers[0].alien`.
    pub(super) fn full_path_of(&self, name: &str) -> String {
        let mut out = self.full_path();
        join(&mut out, name);
        out
    }

    fn full_path(&self) -> String {
        let mut out = self.parent.map(DecodePath::full_path).unwrap_or_default();
        match self.step {
            DecodeStep::Root => {}
            DecodeStep::Field(_, field) => join(&mut out, &field.name),
            DecodeStep::Key(key) => join(&mut out, key),
            DecodeStep::Index(index) => out.push_str(&format!("[{index}]")),
        }
        out
    }
}

fn join(path: &mut String, name: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(name);
}
