//! The cost that extensions add to a write: a schema with rules, a webhook, a policy; and a list that a webhook converts.

use std::time::Instant;

use trireme_http::client::StatusCode;
use trireme_tests::receiver::Receiver;

use super::create::create_in;
use super::definitions::{DEFINITIONS, PATIENCE, install};
use super::{Bench, LOOK_AGAIN, WRITERS};
use crate::client::{Call, Session};
use crate::extension_objects as objects;
use crate::failure::Failure;
use crate::measure::{Limit, LoadOperation, drive};
use crate::objects::config_map;
use crate::report::float;

const REGISTRATION: &str = "/apis/admissionregistration.k8s.io/v1";
/// Custom objects of the list that is converted.
const CONVERTED: u64 = 1_000;

/// Lists all parcels in the version that they are not stored in.
struct ConvertedList {
    session: Session,
    call: Call,
}

impl LoadOperation for ConvertedList {
    async fn once(&mut self, _: u64) -> Result<u64, Failure> {
        let body = self.session.expect(&self.call, StatusCode::OK).await?;
        let shown = memchr::memmem::find_iter(&body, b"\"amount\":3").count() as u64;
        if shown != CONVERTED {
            return Err(Failure::Wrong(format!("{shown} of {CONVERTED} objects are converted")));
        }
        Ok(body.len() as u64)
    }
}

pub(super) async fn run(bench: &mut Bench) -> Result<(), Failure> {
    let script = objects::receiver_script();
    let receiver = Receiver::start(script, &bench.namespace, None).map_err(Failure::io("start a receiver"))?;
    create_config_maps(bench, "alone").await?;
    custom_objects(bench).await?;
    with_webhook(bench, &receiver).await?;
    with_policy(bench).await?;
    converted_list(bench, &receiver).await
}

async fn create_config_maps(bench: &mut Bench, how: &str) -> Result<(), Failure> {
    let name = how.replace(' ', "-");
    let object = |number| config_map(&format!("{name}-{number}"), 0);
    let collection = bench.path("configmaps");
    let measured = create_in(bench, &collection, WRITERS, bench.window(), &object).await?;
    let row = bench.row(format!("create configmap 1 KiB, {how}, 16 at once"), &measured)?;
    bench.report.row(row);
    Ok(())
}

async fn custom_objects(bench: &mut Bench) -> Result<(), Failure> {
    let mut session = Session::open(&bench.target).await?;
    let name = objects::definition_name("gadget");
    install(&mut session, &name, objects::gadgets()).await?;
    let object = |number| objects::gadget(&format!("gadget-{number}"));
    let collection = objects::collection("gadget", "v1", &bench.namespace);
    let measured = create_in(bench, &collection, WRITERS, bench.window(), &object).await?;
    let row = bench.row(
        "create custom object 1 KiB, 50 fields and 3 rules, 16 at once",
        &measured,
    )?;
    bench.report.row(row);
    delete(&mut session, DEFINITIONS, &name).await
}

async fn with_webhook(bench: &mut Bench, receiver: &Receiver) -> Result<(), Failure> {
    let mut session = Session::open(&bench.target).await?;
    let (name, ca) = (bench.namespace.clone(), receiver.ca_bundle());
    let hooks = format!("{REGISTRATION}/validatingwebhookconfigurations");
    let hook = objects::webhook(&name, &name, receiver.port(), &ca);
    session.expect(&Call::post(&hooks, hook), StatusCode::CREATED).await?;
    active(bench, &mut session).await?;
    create_config_maps(bench, "with a webhook").await?;
    delete(&mut session, &hooks, &name).await
}

async fn with_policy(bench: &mut Bench) -> Result<(), Failure> {
    let mut session = Session::open(&bench.target).await?;
    let name = bench.namespace.clone();
    let policies = format!("{REGISTRATION}/validatingadmissionpolicies");
    let bindings = format!("{REGISTRATION}/validatingadmissionpolicybindings");
    for (path, object) in [
        (&policies, objects::policy(&name)),
        (&bindings, objects::policy_binding(&name, &name)),
    ] {
        session.expect(&Call::post(path, object), StatusCode::CREATED).await?;
    }
    active(bench, &mut session).await?;
    create_config_maps(bench, "with a policy of 3 expressions").await?;
    delete(&mut session, &bindings, &name).await?;
    delete(&mut session, &policies, &name).await
}

async fn converted_list(bench: &mut Bench, receiver: &Receiver) -> Result<(), Failure> {
    let mut session = Session::open(&bench.target).await?;
    let name = objects::definition_name("parcel");
    let definition = objects::parcels(receiver.port(), &receiver.ca_bundle());
    install(&mut session, &name, definition).await?;
    let object = |number| objects::parcel(&format!("parcel-{number}"));
    let stored = objects::collection("parcel", "v1", &bench.namespace);
    create_in(bench, &stored, WRITERS, Limit::Times(CONVERTED), &object).await?;
    let before = receiver.received().len();
    let list = objects::collection("parcel", "v2", &bench.namespace);
    let mut callers = [ConvertedList {
        session: Session::open(&bench.target).await?,
        call: Call::get(list),
    }];
    let lists = Limit::Times(if bench.sizes.times.is_some() { 1 } else { 20 });
    let measured = drive(bench.target.pid, lists, &mut callers).await?;
    let calls = (receiver.received().len() - before) as u64;
    let each = float(calls) / float(measured.operations);
    let row = bench.row(
        format!("list {CONVERTED} custom objects through a conversion webhook"),
        &measured,
    )?;
    bench.report.row(row.with("calls of a list", each));
    delete(&mut session, DEFINITIONS, &name).await
}

/// Waits until what refuses the probe is active.
async fn active(bench: &Bench, session: &mut Session) -> Result<(), Failure> {
    let path = format!("{}?dryRun=All", bench.path("configmaps"));
    let probe = Call::post(path, config_map(objects::PROBE, 0));
    let end = Instant::now() + PATIENCE;
    loop {
        match session.answer(&probe).await? {
            (StatusCode::FORBIDDEN | StatusCode::UNPROCESSABLE_ENTITY, _) => return Ok(()),
            (StatusCode::CREATED, _) if Instant::now() < end => tokio::time::sleep(LOOK_AGAIN).await,
            (status, body) => return Err(probe.wrong_status(status, &body)),
        }
    }
}

async fn delete(session: &mut Session, collection: &str, name: &str) -> Result<(), Failure> {
    let delete = Call::delete(format!("{collection}/{name}"));
    session.expect(&delete, StatusCode::OK).await.map(drop)
}

/// Definitions and many custom objects, to see how long a server takes to be back with them.
pub(super) async fn load(bench: &mut Bench) -> Result<(), Failure> {
    let (definitions, many) = (bench.sizes.definitions, bench.sizes.config_maps);
    super::definitions::install_many(bench, definitions).await?;
    let mut session = Session::open(&bench.target).await?;
    install(&mut session, &objects::definition_name("gadget"), objects::gadgets()).await?;
    let object = |number| objects::gadget(&format!("gadget-{number}"));
    let collection = objects::collection("gadget", "v1", &bench.namespace);
    let measured = create_in(bench, &collection, super::READERS, Limit::Times(many), &object).await?;
    let row = bench.row(format!("create {many} custom objects, 64 at once"), &measured)?;
    bench.report.row(row);
    Ok(())
}

/// Counts the custom objects of [`load`].
pub(super) async fn count(bench: &Bench) -> Result<u64, Failure> {
    let collection = objects::collection("gadget", "v1", &bench.namespace);
    super::list::count_in(bench, &collection, "gadget-").await
}
