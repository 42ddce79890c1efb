//! RocketMQ's own client for Rust, as a process of its own; see ../../client.py, which does the same
//! and more: this client has no push consumers, recalls, priorities, namespaces or changed times.

use std::collections::HashMap;
use std::error::Error;
use std::io::BufRead;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rocketmq::conf::{ClientOption, ProducerOption, SimpleConsumerOption};
use rocketmq::model::common::{FilterExpression, FilterType};
use rocketmq::model::message::{MessageBuilder, MessageView};
use rocketmq::model::transaction::{Transaction, TransactionResolution};
use rocketmq::{Producer, SimpleConsumer};
use serde_json::{json, Map, Value};
use tokio::sync::watch;

const CALL: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_secs(2);
const PAUSE_S: f64 = 0.02;

type Ended<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// A command, and whether it shall end.
#[derive(Clone)]
struct Command {
    given: Arc<Value>,
    stop: watch::Receiver<bool>,
}

impl Command {
    // -- what was given, what is told ----------------------------------------------------------------

    fn text(&self, name: &str) -> &str {
        self.given[name].as_str().unwrap_or("")
    }

    fn number(&self, name: &str, otherwise: i64) -> i64 {
        self.given[name].as_i64().unwrap_or(otherwise)
    }

    fn say(&self, mut fields: Map<String, Value>) {
        fields.insert("id".into(), self.given["id"].clone());
        println!("{}", Value::Object(fields));
    }

    fn tell(&self, fields: Value) {
        self.say(Map::from_iter([("told".to_string(), fields)]));
    }

    fn tell_seen(&self, got: &MessageView) {
        self.tell(json!({
            "topic": got.topic(),
            "body": String::from_utf8_lossy(got.body()),
            "tag": got.tag(),
            "keys": got.keys(),
            "properties": got.properties(),
            "message_id": got.message_id(),
            "attempt": got.delivery_attempt(),
            "group": got.message_group(),
            "corrupted": false, // This client does not look at digests.
            "at_ms": now_ms(),
        }));
    }

    // -- clients and messages --------------------------------------------------------------------------

    fn option(&self) -> ClientOption {
        let mut option = ClientOption::default();
        option.set_access_url(self.text("endpoint"));
        option.set_enable_tls(std::env::var("OFFICIAL_TLS").is_ok_and(|is| is == "1"));
        option.set_timeout(CALL);
        option.set_long_polling_timeout(POLL);
        if !self.text("access_key").is_empty() {
            option.set_access_key(self.text("access_key"));
            option.set_secret_key(self.text("secret_key"));
        }
        option
    }

    async fn producer(&self) -> Ended<Producer> {
        let mut option = ProducerOption::default();
        option.set_topics(vec![self.text("topic")]);
        let mut made = if self.text("do") == "transact" {
            let own = self.clone();
            let check = move |_: String, half: MessageView| own.check(&half);
            Producer::new_transaction_producer(option, self.option(), Box::new(check))?
        } else {
            Producer::new(option, self.option())?
        };
        made.start().await?;
        Ok(made)
    }

    fn message(&self, one: &Value) -> MessageBuilder {
        let times = one["times"].as_u64().unwrap_or(1) as usize;
        let body = one["body"].as_str().unwrap_or("").repeat(times);
        let mut made = MessageBuilder::builder().set_topic(self.text("topic")).set_body(body.into_bytes());
        if let Some(tag) = one["tag"].as_str() {
            made = made.set_tag(tag);
        }
        if let Some(keys) = one["keys"].as_array() {
            made = made.set_keys(keys.iter().filter_map(Value::as_str).collect());
        }
        if let Some(group) = one["group"].as_str() {
            made = made.set_message_group(group);
        }
        if let Some(at_ms) = one["deliver_at_ms"].as_i64() {
            made = made.set_delivery_timestamp(at_ms / 1_000);
        }
        if let Some(pairs) = one["properties"].as_object() {
            let texts = pairs.iter().filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)));
            made = made.set_properties(texts.collect::<HashMap<_, _>>());
        }
        made
    }

    // -- commands ----------------------------------------------------------------------------------------

    async fn send(&self) -> Ended {
        let producer = self.producer().await?;
        for one in self.given["messages"].as_array().into_iter().flatten() {
            let receipt = producer.send(self.message(one).build()?).await?;
            self.tell(json!({"message_id": receipt.message_id(), "recall_handle": ""}));
        }
        Ok(producer.shutdown().await?)
    }

    fn check(&self, half: &MessageView) -> TransactionResolution {
        let body = String::from_utf8_lossy(half.body());
        self.tell(json!({"checked": body, "message_id": half.message_id()}));
        if body.contains("commit") {
            TransactionResolution::COMMIT
        } else if body.contains("roll") {
            TransactionResolution::ROLLBACK
        } else {
            TransactionResolution::UNKNOWN
        }
    }

    async fn transact(&mut self) -> Ended {
        let producer = self.producer().await?;
        for body in self.given["bodies"].as_array().into_iter().flatten() {
            let half = self.message(&json!({"body": body})).enable_transaction().build()?;
            let transaction = producer.send_transaction_message(half).await?;
            self.tell(json!({"sent": body, "message_id": transaction.message_id()}));
            match body.as_str() {
                Some("commit") => transaction.commit().await?,
                Some("roll back") => transaction.rollback().await?,
                _ => {}
            }
        }
        self.stop.wait_for(|is_over| *is_over).await?;
        Ok(producer.shutdown().await?)
    }

    async fn receive(&self) -> Ended {
        let mut option = SimpleConsumerOption::default();
        option.set_consumer_group(self.text("group"));
        option.set_topics(vec![self.text("topic")]);
        let mut consumer = SimpleConsumer::new(option, self.option())?;
        consumer.start().await?;
        let kind = if self.text("kind") == "sql" { FilterType::Sql } else { FilterType::Tag };
        let wanted = FilterExpression::new(kind, self.given["expression"].as_str().unwrap_or("*"));
        let invisible = Duration::from_secs(self.number("invisible_s", 15) as u64);
        let at_once = self.number("at_once", 16) as i32;
        let mut left = self.number("count", 0);
        while left > 0 && !*self.stop.borrow() {
            for got in consumer.receive_with(self.text("topic"), &wanted, at_once, invisible).await? {
                self.tell_seen(&got);
                left -= 1;
                match self.given["then"].as_str() {
                    None | Some("ack") => consumer.ack(&got).await?,
                    Some("nothing") => {}
                    Some(other) => return Err(format!("this client cannot give {other}").into()),
                }
            }
        }
        Ok(consumer.shutdown().await?)
    }

    async fn keep_sending(&mut self) -> Ended {
        let pause = Duration::from_secs_f64(self.given["pause_s"].as_f64().unwrap_or(PAUSE_S));
        let producer = self.producer().await?;
        let mut number = self.number("begin", 0);
        while tokio::time::timeout(pause, self.stop.wait_for(|is_over| *is_over)).await.is_err() {
            let one = self.message(&json!({"body": number.to_string()})).build()?;
            match producer.send(one).await {
                Ok(_) => self.tell(json!({"sent": number})),
                Err(error) => self.tell(json!({"failed": number, "why": error.to_string()})),
            }
            number += 1;
        }
        Ok(producer.shutdown().await?)
    }

    async fn carry_out(mut self) {
        let ended = match self.text("do") {
            "send" => self.send().await,
            "transact" => self.transact().await,
            "receive" => self.receive().await,
            "keep_sending" => self.keep_sending().await,
            other => Err(format!("this client has no {other}").into()),
        };
        let (name, how) = match ended {
            Ok(()) => ("done", json!(true)),
            Err(error) => ("failed", json!(error.to_string())),
        };
        self.say(Map::from_iter([(name.to_string(), how)]));
    }
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Carry out what is asked, all at once, until standard input ends.
#[tokio::main(worker_threads = 2)]
async fn main() -> Ended {
    let (lines, mut asked) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let _ = lines.send(line);
        }
    });
    let mut stops: HashMap<i64, watch::Sender<bool>> = HashMap::new();
    while let Some(line) = asked.recv().await {
        let given: Value = serde_json::from_str(&line)?;
        if given["do"] == "stop" {
            if let Some(stop) = given["which"].as_i64().and_then(|which| stops.get(&which)) {
                stop.send_replace(true);
            }
            continue;
        }
        let (stop, stopped) = watch::channel(false);
        stops.insert(given["id"].as_i64().unwrap_or(0), stop);
        tokio::spawn(Command { given: Arc::new(given), stop: stopped }.carry_out());
    }
    std::process::exit(0)
}
