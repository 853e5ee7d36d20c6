/** The plots of docs/benchmarks.md. */
import { median } from '../measure/statistics.ts'
import { ratioBetween, ratioOf, referenceOf, type Result } from '../result.ts'
import type { Findings } from '../run-bench.ts'
import { STORE_NAMES } from '../system.ts'
import { MANY_KINDS, type Growth } from '../works/many.ts'
import { barPlot, type Bar, type BarPanel } from './bar-plot.ts'
import { perSecondText, ratioText } from './figures.ts'
import { linePlot, type LinePanel, type Point } from './line-plot.ts'

export interface Plot {
  readonly file: string
  readonly alt: string
  readonly svg: string
}

const COLOURS = ['#0969da', '#1a7f37', '#cf222e', '#8250df'] as const

export function plotsOf(findings: Findings): readonly Plot[] {
  const drawn: readonly (Plot | null)[] = [
    uncontendedPlot(findings.results),
    contendedPlot(findings.results),
    growthPlot(findings),
  ]
  return drawn.filter((plot) => plot !== null)
}

function uncontendedPlot(results: readonly Result[]): Plot | null {
  const panels = STORE_NAMES.flatMap((store) =>
    (['acquire+release', 'renew'] as const).map((work): BarPanel => {
      const own = results.filter(
        (result) => result.store === store && result.work === work && result.inFlight === 100,
      )
      const against = store === 'sqlite' ? 'the limit' : 'the floor'
      const title = `${store}, ${work}, 100 in flight: throughput × ${against}`
      return { title, bars: own.flatMap((result) => ratioBar(result, results)) }
    }),
  ).filter(({ bars }) => bars.length > 0)
  if (panels.length === 0) return null
  const alt = 'Throughput of each system with 100 operations in flight'
  const mark = { at: 1, words: '1.00: the floor or the limit, written by hand' }
  return { file: 'bench-uncontended.svg', alt, svg: barPlot({ title: alt, mark }, panels) }
}

function ratioBar(result: Result, all: readonly Result[]): readonly Bar[] {
  const ratio = ratioBetween(result, referenceOf(result, all))
  if (ratio === null) return []
  return [
    {
      ...{ label: result.system, value: ratio.median, words: ratioText(ratio) },
      ...{ isOurs: result.system.startsWith('tenure'), spread: [ratio.min, ratio.max] },
    },
  ]
}

function contendedPlot(results: readonly Result[]): Plot | null {
  const own = results.filter(({ contention, rounds }) => contention && rounds.length > 0)
  const works = [...new Set(own.map(({ work }) => work))]
  const panels = works.map((work): BarPanel => {
    const bars = own
      .filter((result) => result.work === work)
      .map(({ store, system, rounds }): Bar => {
        const rates = rounds.map(({ opsPerSecond }) => opsPerSecond)
        const value = median(rates)
        return {
          ...{ label: `${store}: ${system}`, value, words: `${perSecondText(value)} /s` },
          ...{ isOurs: system === 'tenure', spread: [Math.min(...rates), Math.max(...rates)] },
        }
      })
    return { title: `${work}: true handovers per second`, bars }
  })
  if (panels.length === 0) return null
  const alt = 'True handovers per second when everybody wants one resource'
  return { file: 'bench-contended.svg', alt, svg: barPlot({ title: alt }, panels) }
}

/** By the ratio to the small store of the same rounds: the times of different moments cannot be compared. */
function growthPlot({ growth }: Findings): Plot | null {
  const own = growth.filter(({ system }) => system === 'tenure-service')
  const panels = STORE_NAMES.flatMap((store): readonly LinePanel[] => {
    const here = own.filter((one) => one.store === store)
    if (here.length === 0) return []
    const lines = MANY_KINDS.map((kind, index) => ({
      ...{ label: kind, colour: COLOURS[index] ?? COLOURS[0] },
      points: here
        .filter((one) => one.kind === kind)
        .toSorted((a, b) => a.size - b.size)
        .flatMap(pointOf),
    }))
    return [{ title: `${store}: p50 × that among 1,000`, lines }]
  })
  if (panels.length === 0) return null
  const alt =
    'What one operation of Tenure takes among so many live leases, × what it takes among 1,000'
  const one = 'as among 1,000, in the same rounds'
  const svg = linePlot({ title: alt, axis: 'live leases', one }, panels)
  return { file: 'bench-growth.svg', alt, svg }
}

function pointOf({ size, rounds, smallRounds }: Growth): readonly Point[] {
  const ratio = ratioOf(rounds, smallRounds, 'p50Ms')
  return ratio === null ? [] : [{ x: size, y: ratio.median, spread: [ratio.min, ratio.max] }]
}
