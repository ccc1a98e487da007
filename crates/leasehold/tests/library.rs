//! The library, on the memory store.

use std::time::Duration;

#[tokio::test]
async fn waiters_are_served_in_order() {
    let client = leasehold::open("memory:").await.unwrap();
    let lock = client.lock("x").unwrap().ttl(Duration::from_secs(2));
    let first = lock.acquire().await.unwrap();
    let order = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for n in 0..5 {
        let (lock, order) = (lock.clone(), order.clone());
        tasks.push(tokio::spawn(async move {
            let lease = lock.acquire().await.unwrap();
            order.lock().unwrap().push((n, lease.fence().unwrap()));
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert!(lease.release().await.unwrap());
        }));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(Duration::from_millis(3000)).await;
    assert!(first.is_valid(), "renewed by the keeper");
    first.release().await.unwrap();
    for task in tasks {
        task.await.unwrap();
    }
    let order = order.lock().unwrap().clone();
    assert_eq!(order.iter().map(|(n, _)| *n).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    assert!(order.is_sorted_by_key(|(_, fence)| *fence));
    client.close().await;
}
