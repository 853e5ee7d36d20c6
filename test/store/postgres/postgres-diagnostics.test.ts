/** What fails in the background of a store on PostgreSQL is reported, with its source. */
import { beforeEach, expect, it, onTestFinished } from 'vitest'
import { openPostgresStore } from '../../../src/store/postgres/postgres-store.ts'
import { Proxy } from '../../servers/proxy.ts'
import { freshDatabase } from '../../servers/shared-servers.ts'
import { hearFaults } from '../faults-heard.ts'
import { sessionDigest } from '../../../src/service/session-digest.ts'

let url: string
let proxy: Proxy

beforeEach(async () => {
  const place = await freshDatabase()
  onTestFinished(() => place.remove())
  url = place.url
  proxy = await Proxy.start(url)
  onTestFinished(() => proxy.close())
})

async function openStore(address: string) {
  const store = await openPostgresStore({ url: address, connectMs: 2_000 })
  onTestFinished(() => store.close())
  return store
}

it('a listening connection that is lost, and one that cannot be made again, are reported', async () => {
  const faults = hearFaults()
  const store = await openStore(proxy.through(url))
  const signals: unknown[] = []
  const called = new Promise<void>((resolve) => {
    void store.subscribe(sessionDigest('ada'), (signal) => {
      signals.push(signal)
      resolve()
    })
  })
  await store.subscribe(sessionDigest('bob'), () => undefined)
  proxy.refuse()
  proxy.cut()
  await faults.first('store/postgres/listen')
  await faults.first('store/postgres/connection')
  proxy.clear()
  // When it is back, everybody who listens is told to look.
  await called
  expect(signals).toEqual([{ leaseIds: null }])
  const { error } = await faults.first('store/postgres/connection')
  expect(
    faults.all.filter((fault) => fault.error === error && fault.source.endsWith('/connection')),
  ).toHaveLength(1)
})

it('a follower that cannot look at the ledger is reported once, and looks again when it can', async () => {
  const faults = hearFaults()
  const store = await openStore(proxy.through(url))
  let looks = 0
  let news: () => void = () => undefined
  const leave = store.follow(() => {
    looks += 1
    news()
  })
  const looked = (): Promise<void> => new Promise((resolve) => (news = resolve))
  if (looks === 0) await looked()
  proxy.refuse()
  proxy.cut()
  expect(await faults.first('store/postgres/follow')).toMatchObject({ count: 1 })
  proxy.clear()
  await looked()
  leave()
  expect(faults.of('store/postgres/follow')).toHaveLength(1)
})
