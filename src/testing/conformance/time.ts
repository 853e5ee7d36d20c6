/**
 * The store's clock: it grows, it is never set back, and a clock that is another says so. It need only remember what
 * was committed: a decision without effect may be made again at the same tick.
 */
import assert from 'node:assert/strict'
import { parseResource } from '../../core/resource.ts'
import type { Now } from '../../core/time.ts'
import type { Behaviour } from './harness.ts'
import { TTL_MS, WORK, type Stage } from './stage.ts'

export const timeBehaviours: readonly Behaviour[] = [
  {
    name: 'now grows with every decision, although the clock stands still',
    async run(stage) {
      const ticks = [await act(stage), await act(stage), await act(stage)].map((now) => now.tick)
      assert.equal(new Set(ticks.map((tick) => tick.domain)).size, 1)
      assert(grows(ticks.map((tick) => tick.us)))
    },
  },
  {
    name: 'now grows through decisions that were asked for at once',
    async run(stage) {
      const asked = Array.from({ length: 20 }, (_, n) => {
        return stage.see(stage.acquire({ holder: `h${n}`, wait: { kind: 'up_to', waitMs: 1 } }))
      })
      const ticks = (await Promise.all(asked)).map((seen) => seen.now.tick.us)
      assert(grows(ticks.toSorted((a, b) => a - b)))
      const queued = (await stage.entries()).flatMap((entry) => {
        return entry.kind === 'ticket' ? [entry.orderUs] : []
      })
      assert(grows(queued), 'tickets are kept in the order of their filing')
    },
  },
  {
    name: 'now is the time that has passed',
    async run(stage) {
      const before = await act(stage)
      stage.clock.pass(TTL_MS)
      const after = await act(stage)
      assert.equal(after.tick.us - before.tick.us, TTL_MS * 1000)
      assert.equal(after.wallMs - before.wallMs, TTL_MS)
    },
  },
  {
    name: 'wall time never goes back when the clock is set back',
    needs: ['wall'],
    async run(stage) {
      const before = await act(stage)
      stage.clock.stepWall(-3_600_000)
      const after = await act(stage)
      assert(after.wallMs >= before.wallMs)
      assert(after.tick.us > before.tick.us)
    },
  },
  {
    name: 'a lease ends by the tick alone, whatever happens to the wall',
    needs: ['wall'],
    async run(stage) {
      await stage.grant()
      stage.clock.stepWall(31_536_000_000)
      assert.equal((await stage.run(stage.acquire({ holder: 'bob' }))).kind, 'held')
      stage.clock.stepWall(-2 * 31_536_000_000)
      stage.clock.pass(TTL_MS)
      assert.equal((await stage.run(stage.acquire({ holder: 'cyd' }))).kind, 'granted')
    },
  },
  {
    name: 'a lease is held until its last tick and free at its deadline',
    async run(stage) {
      const lease = await stage.grant()
      stage.clock.pass(TTL_MS - 1)
      const { outcome, now } = await stage.see(stage.acquire({ holder: 'bob' }))
      assert.equal(outcome.kind, 'held')
      stage.clock.pass((lease.deadline.us - now.tick.us) / 1000)
      assert.equal((await stage.run(stage.acquire({ holder: 'bob' }))).kind, 'granted')
    },
  },
  {
    name: 'reading also knows the time, and does not wait for a decision to move it',
    async run(stage) {
      const { now } = await stage.see(stage.acquire())
      stage.clock.pass(TTL_MS)
      const found = await stage.store.find({ limit: 1 })
      assert.equal(found.now.tick.domain, now.tick.domain)
      assert(found.now.tick.us >= now.tick.us + TTL_MS * 1000)
    },
  },
  {
    name: 'another clock is another domain, known since the first decision under it',
    needs: ['domains'],
    async run(stage) {
      const before = await act(stage)
      stage.clock.enterDomain('host-b/boot-7/0')
      const first = await act(stage)
      stage.clock.pass(1_000)
      const later = await act(stage)
      assert.notEqual(first.tick.domain, before.tick.domain)
      assert.match(first.tick.domain, /^host-b\/boot-7\/0/)
      assert.equal(later.tick.domain, first.tick.domain)
      assert.equal(first.domainSinceUs, first.tick.us)
      assert.equal(later.domainSinceUs, first.tick.us)
    },
  },
  {
    name: 'a clock that comes back is a new one',
    needs: ['domains'],
    async run(stage) {
      stage.clock.enterDomain('host-a/boot-a/0')
      const first = await act(stage)
      stage.clock.enterDomain('host-b/boot-7/0')
      await act(stage)
      stage.clock.enterDomain('host-a/boot-a/0')
      const again = await act(stage)
      assert.notEqual(again.tick.domain, first.tick.domain)
    },
  },
  {
    name: 'after a reboot every lease is over and its resource free at once',
    needs: ['domains'],
    async run(stage) {
      stage.clock.enterDomain('host-a/boot-a/0')
      const lease = await stage.grant()
      stage.clock.enterDomain('host-a/boot-2/0')
      assert.deepEqual(await passed(stage), [lease.id])
      assert.equal((await stage.run(stage.acquire({ holder: 'bob' }))).kind, 'granted')
    },
  },
  {
    name: 'on another host every lease is over, and its resource free after a whole ttl',
    needs: ['domains'],
    async run(stage) {
      stage.clock.enterDomain('host-a/boot-a/0')
      await stage.grant()
      stage.clock.enterDomain('host-b/boot-b/0')
      assert.equal((await stage.run(stage.acquire({ holder: 'bob' }))).kind, 'held')
      const view = await stage.look({ resource: WORK })
      assert.equal(view.entries.size, 1, 'the delay is live')
      stage.clock.pass(TTL_MS)
      assert.equal((await stage.run(stage.acquire({ holder: 'bob' }))).kind, 'granted')
    },
  },
]

/** The time of a decision that changes something, on a resource of its own. */
async function act(stage: Stage): Promise<Now> {
  const resource = parseResource(`clock:${stage.id()}`)
  const { outcome, now } = await stage.see(stage.acquire({ resource }))
  assert.equal(outcome.kind, 'granted')
  return now
}

async function passed(stage: Stage): Promise<readonly string[]> {
  const found = await stage.store.find({ deadline: 'passed', limit: 10 })
  return found.entries.map((entry) => entry.id)
}

function grows(numbers: readonly number[]): boolean {
  return numbers.every((number, at) => at === 0 || number > (numbers[at - 1] ?? Infinity))
}
