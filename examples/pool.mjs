/** No more than N at once, among all processes of the store: docs/recipes/pool.md */
import { setTimeout as sleep } from 'node:timers/promises'
import { openTenure } from 'tenure'

const store = process.argv[2] ?? process.env.TENURE_STORE ?? 'sqlite:leases.db'
const tenure = await openTenure(store, { holder: `worker-${process.pid}` })
const SLOTS = 3
let running = 0
let most = 0

async function render(page) {
  running += 1
  most = Math.max(most, running)
  await sleep(20)
  running -= 1
  return page
}

const options = { slots: SLOTS, waitMs: 60_000 }
const pages = [1, 2, 3, 4, 5, 6, 7, 8]
const done = await Promise.all(
  pages.map((page) => tenure.withLease('pool:renderers', options, () => render(page))),
)
console.log(`${done.length} pages, ${most} at once`)

// Whoever would rather do something else than wait asks without waiting.
const slots = await Promise.all(
  pages.map(() => tenure.tryAcquire('pool:renderers', { slots: SLOTS })),
)
const granted = slots.filter((attempt) => attempt.kind === 'granted')
console.log(`${granted.length} of ${slots.length} had a free slot`)
await tenure.close() // releases what it still holds
