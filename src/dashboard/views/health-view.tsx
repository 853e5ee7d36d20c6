/** Rates of events, latencies of the store, refusals and faults: what Prometheus reads, as far as the page shows it. */
import type { JSX } from 'preact'
import { useFeed, RATE_SECONDS, SERIES, type Series } from '../state/live-feed.ts'
import type { MarkName } from '../state/holds.ts'
import { Mark } from '../parts/marks.tsx'
import { countText } from '../parts/words.ts'
import { useAsked } from '../state/questions.ts'
import { Section } from './resource-view.tsx'

const READ_AGAIN_MS = 5_000

const SERIES_MARKS: Readonly<Record<Series, MarkName>> = {
  grants: 'held',
  releases: 'released',
  expiries: 'expired',
  revocations: 'revoked',
  waits: 'waiting',
  refusals: 'refused',
  renewals: 'renewed',
}

export function HealthView(): JSX.Element {
  const feed = useFeed()
  const secondMs = Math.floor(feed.nowMs.value / 1_000) * 1_000
  const version = Math.floor(secondMs / READ_AGAIN_MS)
  const metrics = useAsked('metrics', version, async () => {
    return readSamples(await feed.calls.text('/metrics'))
  }).value
  const { held, waiting } = feed.leases.counts
  return (
    <main class="view page-sheet">
      <header class="subject">
        <h1>Health</h1>
        <p class="dim">
          {countText(held)} held, {countText(waiting)} waiting; plots of the last{' '}
          {RATE_SECONDS / 60} minutes, as far as this page has followed
        </p>
      </header>
      <div class="plots">
        {SERIES.map((series) => (
          <Plot key={series} series={series} rates={feed.log.rates(series, secondMs)} />
        ))}
      </div>
      {metrics.kind === 'refused' ? <p class="problem">{metrics.problem}</p> : null}
      {metrics.kind === 'answered' ? <Metrics samples={metrics.answer} /> : null}
    </main>
  )
}

const PLOT = { width: 300, height: 48 }
const RECENT = 60

function Plot({ series, rates }: { series: Series; rates: readonly number[] }): JSX.Element {
  const most = Math.max(1, ...rates)
  const step = PLOT.width / (rates.length - 1)
  const points = rates.map((rate, index) => {
    return `${(index * step).toFixed(1)} ${(PLOT.height - (rate / most) * (PLOT.height - 4)).toFixed(1)}`
  })
  const recent = rates.slice(-RECENT)
  const perMinute = recent.reduce((sum, rate) => sum + rate, 0)
  return (
    <figure class="plot">
      <figcaption>
        <Mark name={SERIES_MARKS[series]} isSilent /> {series}
        <b>{countText(perMinute)}</b>
        <span class="dim">in the last minute</span>
      </figcaption>
      <svg viewBox={`0 0 ${PLOT.width} ${PLOT.height}`} preserveAspectRatio="none" role="img">
        <title>{`${series}: ${perMinute} in the last minute, at most ${most} in a second`}</title>
        <path
          class="area"
          d={`M0 ${PLOT.height}L${points.join('L')}L${PLOT.width} ${PLOT.height}Z`}
        />
        <path class="curve" d={`M${points.join('L')}`} />
      </svg>
    </figure>
  )
}

function Metrics({ samples }: { samples: readonly Sample[] }): JSX.Element {
  const latencies = latenciesIn(samples)
  return (
    <div class="columns">
      <Section title="Store, since this server was started">
        <table>
          <thead>
            <tr>
              <th scope="col">Call</th>
              <th scope="col">Calls</th>
              <th scope="col">Half within</th>
              <th scope="col">95 % within</th>
            </tr>
          </thead>
          <tbody>
            {latencies.map(({ call, count, half, most }) => (
              <tr key={call}>
                <td>
                  <code>{call}</code>
                </td>
                <td>{countText(count)}</td>
                <td>{secondsText(half)}</td>
                <td>{secondsText(most)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Section>
      <Counts
        title="Refused by this server"
        none="Nothing was refused."
        counts={countsIn(samples, 'tenure_refusals_total', 'code')}
      />
      <Counts
        title="Faults in the background"
        none="Nothing has failed."
        counts={countsIn(samples, 'tenure_faults_total', 'source')}
        isBad
      />
    </div>
  )
}

function secondsText(seconds: number): string {
  return Number.isFinite(seconds) ? `${seconds * 1_000} ms` : 'over 10 s'
}

interface CountsProps {
  readonly title: string
  readonly none: string
  readonly counts: readonly Counted[]
  readonly isBad?: boolean
}

function Counts({ title, none, counts, isBad = false }: CountsProps): JSX.Element {
  return (
    <Section title={title} {...(isBad && counts.length > 0 ? { tone: 'bad' } : {})}>
      {counts.length === 0 ? (
        <p class="dim">{none}</p>
      ) : (
        <table>
          <tbody>
            {counts.map(({ label, value }) => (
              <tr key={label}>
                <td>
                  <code>{label}</code>
                </td>
                <td>{countText(value)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Section>
  )
}

interface Sample {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

const LINE = /^([a-z_]+)(?:\{([^}]*)\})? (\S+)$/
const LABEL = /(\w+)="([^"]*)"/g

function readSamples(text: string): readonly Sample[] {
  return text.split('\n').flatMap((line) => {
    const [, name, labels = '', value] = LINE.exec(line) ?? []
    if (name === undefined || value === undefined) return []
    const named = [...labels.matchAll(LABEL)].map(([, key = '', word = '']) => [key, word])
    return [
      { name, labels: Object.fromEntries(named) as Record<string, string>, value: Number(value) },
    ]
  })
}

interface CallLatency {
  readonly call: string
  readonly count: number
  /** Seconds within which so many of the calls were answered, as far as the buckets tell. */
  readonly half: number
  readonly most: number
}

const MOST = 0.95

/** Of each call of the store since the server was started, the most frequent first. */
function latenciesIn(samples: readonly Sample[]): readonly CallLatency[] {
  const buckets = new Map<string, { readonly bound: number; readonly count: number }[]>()
  for (const { name, labels, value } of samples) {
    const { call, le } = labels
    if (name !== 'tenure_store_seconds_bucket' || call === undefined || le === undefined) continue
    const bound = le === '+Inf' ? Infinity : Number(le)
    buckets.set(call, [...(buckets.get(call) ?? []), { bound, count: value }])
  }
  return [...buckets]
    .map(([call, own]) => {
      const count = own.at(-1)?.count ?? 0
      const within = (share: number): number => {
        return own.find((bucket) => bucket.count >= share * count)?.bound ?? Infinity
      }
      return { call, count, half: within(0.5), most: within(MOST) }
    })
    .filter(({ count }) => count > 0)
    .toSorted((one, other) => other.count - one.count)
}

interface Counted {
  readonly label: string
  readonly value: number
}

/** A counter by one of its labels, without zeros, the greatest first. */
function countsIn(samples: readonly Sample[], name: string, label: string): readonly Counted[] {
  return samples
    .filter((sample) => sample.name === name && sample.value > 0)
    .map(({ labels, value }) => ({ label: labels[label] ?? '', value }))
    .toSorted((one, other) => other.value - one.value)
}
