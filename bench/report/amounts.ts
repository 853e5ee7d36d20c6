/** How much was measured, in words. */
import type { Plan, WorkName } from '../plan.ts'
import type { Table } from './table.ts'

export function amountTable(plan: Plan, missing: readonly WorkName[]): Table {
  return {
    title: 'How much was measured',
    columns: ['work', 'amount'],
    rows: plan.works
      .filter((work) => !missing.includes(work))
      .map((work) => [work, AMOUNTS[work](plan)]),
  }
}

const AMOUNTS: Readonly<Record<WorkName, (plan: Plan) => string>> = {
  uncontended: ({ uncontended: { rounds, sliceMs, warmUpMs, resources } }) =>
    `${inRounds(rounds)} of ${ms(sliceMs)} each, after a third of that which does not count, and ${ms(warmUpMs)} to warm up before the first; ${count(resources)} resources`,
  contended: ({ contended: { rounds, leadInMs, roundMs, holdlessMs } }) =>
    `${inRounds(rounds)} of ${ms(roundMs)} (without a hold ${ms(holdlessMs)}) each, after ${ms(leadInMs)} that do not count`,
  pauses: ({ pauses: { triedMs, leadInMs, roundMs } }) =>
    `${triedMs.length} pauses, ${ms(roundMs)} each, after ${ms(leadInMs)} that do not count`,
  many: ({ many: { sizes, rounds, samples } }) =>
    `${inRounds(rounds)} of ${samples} operations, among ${sizes.map(count).join(', ')} live leases and beside 1,000`,
  keeping: ({ keeping: { leases, ttlMs, lastsMs } }) =>
    `${count(leases)} leases with a TTL of ${ms(ttlMs)}, for ${ms(lastsMs)}`,
  http: ({ http: { rounds, sliceMs, warmUpMs, handovers, streams, lastsMs, keeping } }) =>
    `${inRounds(rounds)} of ${ms(sliceMs)} each, after a third of that which does not count, and ${ms(warmUpMs)} to warm up; ${count(handovers)} handovers; ${count(streams)} streams for ${ms(lastsMs)}; ${count(keeping.leases)} leases with a TTL of ${ms(keeping.ttlMs)}, for ${ms(keeping.lastsMs)}`,
  'start-up': ({ startUp: { rounds } }) => `${inRounds(rounds)}`,
  hook: ({ hook: { sizes, rounds } }) =>
    `${inRounds(rounds)}, among ${sizes.map(count).join(', ')} leases`,
  profile: ({ profile: { operations } }) => `4 × ${count(operations)} of each operation`,
}

function inRounds(value: number): string {
  return value === 1 ? '1 round' : `${count(value)} rounds`
}

function ms(value: number): string {
  return value >= 1_000 ? `${value / 1_000} s` : `${value} ms`
}

function count(value: number): string {
  return value.toLocaleString('en')
}
