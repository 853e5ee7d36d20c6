/** What must be true of a run of takeovers, however long it was. */
import { expect } from 'vitest'
import { IN_FLIGHT, type Applied, type TakeoverReport } from './takeovers.ts'

export function expectOneWriter(report: TakeoverReport, takeovers: number): void {
  const { applied, unfenced, late, refusals, kills, stops, revocations, crashes } = report
  expect(crashes).toEqual([])
  expect(kills + stops + revocations).toBe(takeovers)
  expect(new Set(applied.map(({ fence }) => fence)).size).toBeGreaterThan(takeovers)
  // Every epoch at most once and in order, and no gap but where somebody crashed or was stopped.
  expect(disorderIn(applied)).toEqual([])
  expect(gapsWithin(applied)).toEqual([])
  expect(gapsBetween(applied, report.claims)).toEqual([])
  // Those who were stopped did act late, all of it was refused, and the one who believes everything believed it.
  expect(late.length).toBeGreaterThan(0)
  const carriedOut = new Set(applied.map(({ actionId }) => actionId))
  expect(late.filter(({ actionId }) => carriedOut.has(actionId))).toEqual([])
  expect(refusals.get('LEASE_VIOLATION')).toBeGreaterThanOrEqual(late.length)
  expect(disorderIn(unfenced).length).toBeGreaterThan(0)
  expectRevoked(report)
  process.stdout.write(
    `takeovers: ${kills} killed, ${stops} stopped, ${revocations} revoked, ` +
      `${applied.length} actions carried out, ${report.lateRevoked.length} revoked ones refused ` +
      `(${report.onlyRevoked} by the revocation alone), ` +
      `${late.length} late ones refused, ${disorderIn(unfenced).length} stale ones believed by the unfenced\n`,
  )
}

/** From the moment that one of the processors knew of a revocation none of them has acted under that lease. */
function expectRevoked({ applied, heard, lateRevoked, revocations }: TakeoverReport): void {
  expect(revocations).toBeGreaterThan(0)
  expect(heard.length).toBeGreaterThanOrEqual(revocations)
  const afterwards = heard.flatMap(({ fence, appliedBefore }) => {
    return applied.slice(appliedBefore).filter((one) => one.fence === fence)
  })
  expect(afterwards).toEqual([])
  // What those who were revoked had in hand did arrive.
  expect(lateRevoked.length).toBeGreaterThan(0)
}

/** Epochs that are not above all before them. */
function disorderIn(applied: readonly Applied[]): readonly number[] {
  let highest = -1
  return applied.flatMap(({ epoch }) => {
    const isLate = epoch <= highest
    highest = Math.max(highest, epoch)
    return isLate ? [epoch] : []
  })
}

function gapsWithin(applied: readonly Applied[]): readonly string[] {
  return applied.flatMap(({ fence, epoch }, index) => {
    const before = applied[index - 1]
    if (before === undefined || before.fence !== fence || epoch === before.epoch + 1) return []
    return [`${before.epoch} → ${epoch}`]
  })
}

/** Where the lease changes more epochs are missing than those who held it meanwhile can have had in hand. */
function gapsBetween(applied: readonly Applied[], claims: readonly number[]): readonly string[] {
  return applied.flatMap(({ fence, epoch }, index) => {
    const before = applied[index - 1]
    if (before === undefined || before.fence === fence) return []
    const holders = claims.filter((claim) => claim >= before.fence && claim < fence).length
    const isExplained = epoch - before.epoch - 1 <= IN_FLIGHT * holders
    return isExplained ? [] : [`${before.epoch} → ${epoch} with ${holders} between`]
  })
}
