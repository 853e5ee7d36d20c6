/** How code that holds leases is tested, here with node:test (`node --test`): docs/recipes/testing.md */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isLeaseError, openTenure } from 'tenure'

/** What is tested takes its client as an argument. */
async function ship(tenure, order) {
  const attempt = await tenure.tryAcquire(`order:${order}`, { reason: 'shipping' })
  if (attempt.kind === 'held') return `busy: ${attempt.blockers[0].reason}`
  await attempt.lease.release()
  return 'shipped'
}

/** A store of its own for each test, with nothing on the disk, closed whatever becomes of the test. */
async function fresh(context) {
  const tenure = await openTenure('memory:', { holder: 'test' })
  context.after(() => tenure.close())
  return tenure
}

test('an order is shipped, and nothing stays held', async (context) => {
  const tenure = await fresh(context)
  assert.equal(await ship(tenure, 17), 'shipped')
  assert.deepEqual(await tenure.list({ state: 'active' }), [])
})

test('an order that another has is left alone', async (context) => {
  const tenure = await fresh(context)
  await tenure.acquire('order:17', { reason: 'refunding' })
  assert.equal(await ship(tenure, 17), 'busy: refunding')
})

test('work whose lease is taken away hears of it', async (context) => {
  const tenure = await fresh(context)
  const work = tenure.withLease('order:17', (lease) => tenure.revoke(lease.id))
  await assert.rejects(work, (error) => isLeaseError(error, 'LEASE_LOST'))
})
