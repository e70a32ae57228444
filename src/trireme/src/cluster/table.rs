//! The group as a person reads it.

use std::fmt::Write as _;

use trireme_edge::replicas::{GroupView, MemberView};

/// The output of `trireme cluster status`.
pub(super) fn render(view: &GroupView) -> String {
    let mut text = headline(view);
    if !view.members.is_empty() {
        text.push('\n');
        text.push_str(&columns(&members(view)));
    }
    if !view.duties.is_empty() {
        text.push('\n');
        text.push_str(&columns(&duties(view)));
    }
    text
}

fn headline(view: &GroupView) -> String {
    let Some(group) = &view.group else {
        return "This replica is alone: it is in no group and does every duty itself.\n".to_owned();
    };
    let mut text = String::new();
    let alive = view.members.iter().filter(|member| member.alive == Some(true)).count();
    let (all, term) = (view.members.len(), view.term);
    // Writing to a string does not fail.
    let _ = match (&view.leader, view.quorum) {
        _ if view.members.is_empty() => writeln!(text, "Group {group}: this replica is not a member (yet)."),
        (Some(leader), true) => {
            writeln!(
                text,
                "Group {group}: {alive} of {all} members alive, led by {leader} in term {term}."
            )
        }
        (None, true) => writeln!(
            text,
            "Group {group}: {alive} of {all} members alive, a leader is being elected."
        ),
        (_, false) => writeln!(
            text,
            "Group {group}: NO QUORUM of its {all} members. Duties are not done; replicas go on serving the API."
        ),
    };
    if let Some(raft_error) = &view.raft_error {
        let _ = writeln!(
            text,
            "This replica takes no part until it is started again: {raft_error}"
        );
    }
    text
}

fn members(view: &GroupView) -> Vec<Vec<String>> {
    let mut rows = vec![row(["REPLICA", "ADDRESS", "VERSION", "ROLE", "ALIVE", "DUTIES"])];
    for member in &view.members {
        let held = view
            .duties
            .iter()
            .filter(|duty| duty.holder.as_ref() == Some(&member.id))
            .count();
        let asked = if view.replica.as_ref() == Some(&member.id) {
            " *"
        } else {
            ""
        };
        rows.push(vec![
            format!("{}{asked}", member.id),
            member.address.clone(),
            member.version.clone().unwrap_or_else(|| "-".to_owned()),
            role(view, member).to_owned(),
            member
                .alive
                .map_or("unknown", |alive| if alive { "yes" } else { "no" })
                .to_owned(),
            if view.quorum { held.to_string() } else { "-".to_owned() },
        ]);
    }
    rows
}

fn role(view: &GroupView, member: &MemberView) -> &'static str {
    if view.leader.as_ref() == Some(&member.id) {
        "leader"
    } else if member.voter {
        "voter"
    } else {
        "learner"
    }
}

fn duties(view: &GroupView) -> Vec<Vec<String>> {
    let mut rows = vec![row(["DUTY", "HOLDER", "ADDRESS", "TOKEN"])];
    for duty in &view.duties {
        let holder = duty.holder.as_ref();
        let member = view.members.iter().find(|member| Some(&member.id) == holder);
        let here = if view.group.is_none() && duty.held {
            "this replica"
        } else {
            "-"
        };
        rows.push(vec![
            duty.duty.clone(),
            holder.cloned().unwrap_or_else(|| here.to_owned()),
            member.map_or_else(|| "-".to_owned(), |member| member.address.clone()),
            duty.token.map_or_else(|| "-".to_owned(), |token| token.to_string()),
        ]);
    }
    rows
}

fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

/// Rows whose columns are as wide as their widest cell.
fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(String::len).max();
    let widths: Vec<usize> = (0..count).map(|column| width(column).unwrap_or_default()).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        let line = cells.collect::<Vec<_>>().join("   ");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use trireme_edge::replicas::{DutyView, StoreView};

    use super::*;

    fn view() -> GroupView {
        let member = |id: &str, port: u16| MemberView {
            id: id.to_owned(),
            address: format!("10.0.0.1:{port}"),
            version: Some("0.1.0".to_owned()),
            voter: true,
            alive: Some(true),
        };
        let duty = |name: &str, holder: Option<&str>, token| DutyView {
            duty: name.to_owned(),
            holder: holder.map(str::to_owned),
            token,
            held: holder == Some("00000000000000aa"),
        };
        GroupView {
            group: Some("blue".to_owned()),
            replica: Some("00000000000000aa".to_owned()),
            leader: Some("00000000000000bb".to_owned()),
            term: 3,
            quorum: true,
            raft_error: None,
            members: vec![
                member("00000000000000aa", 7443),
                member("00000000000000bb", 7444),
                MemberView {
                    version: None,
                    voter: false,
                    alive: Some(false),
                    ..member("00000000000000cc", 7445)
                },
            ],
            duties: vec![
                duty("flow-status", Some("00000000000000aa"), Some(1_795_313_638_222)),
                duty("namespace-controller", None, None),
            ],
            store: StoreView { revision: Some(7) },
            resources: Vec::new(),
        }
    }

    #[test]
    fn a_group_is_shown_with_its_members_and_duties() {
        expect![[r#"
            Group blue: 2 of 3 members alive, led by 00000000000000bb in term 3.

            REPLICA              ADDRESS         VERSION   ROLE      ALIVE   DUTIES
            00000000000000aa *   10.0.0.1:7443   0.1.0     voter     yes     1
            00000000000000bb     10.0.0.1:7444   0.1.0     leader    yes     0
            00000000000000cc     10.0.0.1:7445   -         learner   no      0

            DUTY                   HOLDER             ADDRESS         TOKEN
            flow-status            00000000000000aa   10.0.0.1:7443   1795313638222
            namespace-controller   -                  -               -
        "#]]
        .assert_eq(&render(&view()));
    }

    #[test]
    fn without_a_quorum_nothing_is_claimed() {
        let mut view = view();
        (view.quorum, view.leader) = (false, None);
        view.members.iter_mut().for_each(|member| member.alive = None);
        view.duties.clear();
        expect![[r#"
            Group blue: NO QUORUM of its 3 members. Duties are not done; replicas go on serving the API.

            REPLICA              ADDRESS         VERSION   ROLE      ALIVE     DUTIES
            00000000000000aa *   10.0.0.1:7443   0.1.0     voter     unknown   -
            00000000000000bb     10.0.0.1:7444   0.1.0     voter     unknown   -
            00000000000000cc     10.0.0.1:7445   -         learner   unknown   -
        "#]]
        .assert_eq(&render(&view));
    }

    #[test]
    fn a_replica_that_is_alone_says_so() {
        let mut view = view();
        (view.group, view.replica, view.leader) = (None, None, None);
        view.members.clear();
        view.duties[0].holder = None;
        expect![[r#"
            This replica is alone: it is in no group and does every duty itself.

            DUTY                   HOLDER         ADDRESS   TOKEN
            flow-status            this replica   -         1795313638222
            namespace-controller   -              -         -
        "#]]
        .assert_eq(&render(&view));
    }
}
