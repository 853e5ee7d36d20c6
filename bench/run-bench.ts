/** Runs the works of a plan one after the other and gathers what they found out. */
import { Places } from './places.ts'
import type { Plan, WorkName } from './plan.ts'
import { withoutThoseThatOverlap, type Result } from './result.ts'
import type { SystemUnderTest } from './system.ts'
import { ALL_SYSTEMS } from './systems/all-systems.ts'
import { measureContended } from './works/contended.ts'
import type { Stage } from './works/entrants.ts'
import { measureKeeping, type Keeping } from './works/keeping.ts'
import { measureMany, type Growth, type SpaceTaken } from './works/many.ts'
import { measurePauses, withBestPauses, type PauseTried } from './works/pauses.ts'
import { measureProfiles, type Profile } from './works/profile.ts'
import { measureHook } from './works/hook.ts'
import { measureHttp, type HttpCosts } from './works/http.ts'
import { measureStartUp } from './works/start-up.ts'
import { measureUncontended } from './works/uncontended.ts'

export interface Findings {
  /** As they were measured, but for the pauses that were tried. */
  readonly systems: readonly SystemUnderTest[]
  readonly results: readonly Result[]
  readonly pauses: readonly PauseTried[]
  readonly growth: readonly Growth[]
  readonly space: readonly SpaceTaken[]
  readonly keeping: readonly Keeping[]
  readonly profiles: readonly Profile[]
  readonly http: readonly HttpCosts[]
}

export interface RunOptions {
  readonly say: (line: string) => void
  /** After each work, with all that was found so far: a long run that is interrupted leaves something. */
  readonly onWork: (findings: Findings, missing: readonly WorkName[]) => void
}

export async function runBench(plan: Plan, { say, onWork }: RunOptions): Promise<Findings> {
  const needsStores = plan.works.some((work) => !['start-up', 'hook', 'http'].includes(work))
  const places = await Places.open(needsStores ? plan.stores : [])
  try {
    return await runWorks({ places, systems: ALL_SYSTEMS, say }, plan, onWork)
  } finally {
    await places.close()
  }
}

async function runWorks(first: Stage, plan: Plan, onWork: RunOptions['onWork']): Promise<Findings> {
  let stage = first
  const results: Result[] = []
  const found = {
    ...{ growth: [] as Growth[], space: [] as SpaceTaken[], keeping: [] as Keeping[] },
    ...{ profiles: [] as Profile[], pauses: [] as PauseTried[], http: [] as HttpCosts[] },
  }
  const findings = (): Findings => {
    return { systems: stage.systems, results: withoutThoseThatOverlap(results), ...found }
  }
  for (const [index, work] of plan.works.entries()) {
    switch (work) {
      case 'uncontended':
        results.push(...(await measureUncontended(stage, plan)))
        break
      case 'contended':
        results.push(...(await measureContended(stage, plan)))
        break
      case 'pauses': {
        const report = await measurePauses(stage, plan)
        results.push(...report.failures)
        found.pauses.push(...report.pauses)
        stage = { ...stage, systems: withBestPauses(stage.systems, report.pauses) }
        break
      }
      case 'many': {
        const many = await measureMany(stage, plan)
        results.push(...many.results)
        found.growth.push(...many.growth)
        found.space.push(...many.space)
        break
      }
      case 'keeping': {
        const report = await measureKeeping(stage, plan)
        results.push(...report.results)
        found.keeping.push(...report.keeping)
        break
      }
      case 'http': {
        const report = await measureHttp(stage, plan)
        results.push(...report.results)
        found.http.push(...report.costs)
        break
      }
      case 'start-up':
        results.push(...(await measureStartUp(stage, plan)))
        break
      case 'hook':
        results.push(...(await measureHook(stage, plan)))
        break
      case 'profile': {
        const report = await measureProfiles(stage, plan)
        results.push(...report.failures)
        found.profiles.push(...report.profiles)
        break
      }
    }
    onWork(findings(), plan.works.slice(index + 1))
  }
  return findings()
}
