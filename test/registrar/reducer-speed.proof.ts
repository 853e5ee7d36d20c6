/**
 * How many events a reducer applies in a second of processor time: what neighbours on the same machine take is not
 * counted. The best of a few rounds, because the compiler works in the first.
 */
import { expect, it } from 'vitest'
import { LeaseReducer } from '../../src/registrar/lease-reducer.ts'
import type { EventRecord } from '../../src/registrar/payloads.ts'
import { issued, released, renewed } from './registrar-events.ts'

const LEASES = 20_000
const EVENTS_PER_LEASE = 4
const EVENTS_PER_SECOND_MIN = 500_000
const ROUNDS = 7

function script(): readonly EventRecord[] {
  const events: EventRecord[] = []
  for (let index = 0; index < LEASES; index += 1) {
    const leaseId = `lease-${index}`
    events.push(
      issued({ leaseId, workId: `work-${index % 500}` }),
      renewed({ leaseId, newExpiresAt: 2_500 }),
      renewed({ leaseId, newExpiresAt: 3_000 }),
      released({ leaseId }),
    )
  }
  return events
}

it(`applies ${EVENTS_PER_SECOND_MIN} events a second on one core`, () => {
  const events = script()
  const rates: number[] = []
  for (let round = 0; round < ROUNDS; round += 1) {
    const reducer = new LeaseReducer()
    const before = process.cpuUsage()
    for (const event of events) reducer.apply(event)
    const { user, system } = process.cpuUsage(before)
    rates.push((events.length / (user + system)) * 1e6)
    expect(reducer.state.releasedCount()).toBe(LEASES)
  }
  const best = Math.round(Math.max(...rates))
  process.stdout.write(`reducer: ${best} events/s (${LEASES * EVENTS_PER_LEASE} events)\n`)
  expect(best).toBeGreaterThanOrEqual(EVENTS_PER_SECOND_MIN)
})
