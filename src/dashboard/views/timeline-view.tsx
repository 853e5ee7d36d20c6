/** Who held what, when: lanes over the last minutes, hours or days, or over any span of the past. */
import type { JSX } from 'preact'
import { useMemo } from 'preact/hooks'
import { useFeed } from '../state/live-feed.ts'
import { SPAN_MS, momentText, plural } from '../parts/words.ts'
import { firstMs, holdsOf, lanesOf, type MarkName, type Hold } from '../state/holds.ts'
import { Mark, MARK_WORDS } from '../parts/marks.tsx'
import type { TimeWindow } from '../parts/timeline-layout.ts'
import { TimelineChart } from '../parts/timeline-chart.tsx'
import { DECISIVE_TYPES, readHistory, type History } from '../state/history.ts'
import { cutText, useAsked, type Asked } from '../state/questions.ts'
import { changeParams, route } from '../state/route.ts'
import type { LedgerRow } from '../wire/answers.ts'

const SPANS: readonly { readonly name: string; readonly ms: number }[] = [
  { name: '5 m', ms: 5 * SPAN_MS.minute },
  { name: '1 h', ms: SPAN_MS.hour },
  { name: '6 h', ms: 6 * SPAN_MS.hour },
  { name: '24 h', ms: SPAN_MS.day },
  { name: '7 d', ms: 7 * SPAN_MS.day },
]
const SPAN_MS_DEFAULT = 5 * SPAN_MS.minute
const AHEAD = 0.03
const PAGES_MAX = 20
const RENEWAL_PAGES_MAX = 3
const READ_AGAIN_MS = 30_000
const LAID_OUT_EVERY_MS = 5_000
const LEGEND: readonly MarkName[] = [
  'released',
  'expired',
  'revoked',
  'transferred',
  'deadlock',
  'refused',
]

export function TimelineView(): JSX.Element {
  const feed = useFeed()
  const { params } = route.value
  const by = params.get('by') === 'holder' ? 'holder' : 'resource'
  const words = (params.get('q') ?? '').toLowerCase().split(/\s+/).filter(Boolean)
  const secondMs = Math.floor(feed.nowMs.value / 1_000) * 1_000
  const { window, isFollowing, spanMs } = windowOf(params, secondMs)
  const past = usePast(window, isFollowing)
  const version = feed.version.value
  const live = window.toMs >= secondMs ? feed.leases.all() : []
  const rows = rowsOf(past, isFollowing ? feed.log.rows : [])
  const lanes = useMemo(() => {
    const holds = holdsOf(rows, live, window.fromMs - spanMs)
    return lanesOf(
      holds.filter((hold) => isShown(hold, words, window, secondMs)),
      by,
    )
  }, [past, version, by, params.toString(), Math.floor(window.fromMs / LAID_OUT_EVERY_MS)])
  return (
    <main class="view now">
      <TimelineTools {...{ by, params, window, isFollowing, spanMs }} />
      <p class="legend padded">
        <span>
          <i class="sample hold-sample" /> held
        </span>
        <span>
          <i class="sample wait-sample" /> waited
        </span>
        {LEGEND.map((name) => (
          <span key={name}>
            <Mark name={name} isSilent /> {MARK_WORDS[name]}
          </span>
        ))}
        <span class="end">{summary(past, lanes.length)}</span>
      </p>
      {lanes.length === 0 && past.kind === 'answered' ? (
        <p class="empty">Nothing happened in this time.</p>
      ) : (
        <TimelineChart
          {...{ lanes, by, window }}
          label={by === 'resource' ? 'holder' : 'resource'}
          nowMs={feed.nowMs.value}
          onWindow={({ fromMs, toMs }) => {
            const given = { from: String(Math.round(fromMs)), to: String(Math.round(toMs)) }
            changeParams({ ...given, span: '' }, 'replace')
          }}
        />
      )}
    </main>
  )
}

interface Shown {
  readonly window: TimeWindow
  /** The end of the window moves with the clock. */
  readonly isFollowing: boolean
  readonly spanMs: number
}

function windowOf(params: URLSearchParams, nowMs: number): Shown {
  const fromMs = Number(params.get('from'))
  const toMs = Number(params.get('to'))
  if (fromMs > 0 && toMs > fromMs) {
    return { window: { fromMs, toMs }, isFollowing: false, spanMs: toMs - fromMs }
  }
  const asked = Number(params.get('span'))
  const spanMs = asked > 0 ? asked : SPAN_MS_DEFAULT
  return {
    window: { fromMs: nowMs - spanMs, toMs: nowMs + spanMs * AHEAD },
    isFollowing: true,
    spanMs,
  }
}

/** As much again is read before the window: what began there reaches into it, and it can be moved at once. */
function usePast(window: TimeWindow, isFollowing: boolean): Asked<History> {
  const feed = useFeed()
  const spanMs = window.toMs - window.fromMs
  const fromMs = Math.floor((window.fromMs - spanMs) / spanMs) * spanMs
  const toMs = isFollowing ? undefined : Math.ceil((window.toMs + 1) / spanMs) * spanMs
  const subject = `${Math.round(fromMs)} ${toMs ?? 'now'}`
  const version = isFollowing ? Math.floor(feed.nowMs.value / READ_AGAIN_MS) : 0
  return useAsked(subject, version, async (signal) => {
    const span = {
      fromMs: Math.max(0, Math.round(fromMs)),
      ...(toMs === undefined ? {} : { toMs: Math.round(toMs) }),
    }
    const decisive = { ...span, types: DECISIVE_TYPES, pagesMax: PAGES_MAX }
    const renewals = { ...span, types: ['lease.renewed'] as const, pagesMax: RENEWAL_PAGES_MAX }
    const [told, renewed] = await Promise.all([
      readHistory(feed.calls, decisive, signal),
      readHistory(feed.calls, renewals, signal),
    ])
    const rows = [...told.rows, ...renewed.rows]
    return { rows: rows.toSorted((a, b) => a.event.atMs - b.event.atMs), isCut: told.isCut }
  }).value
}

/** The events that were read, and those that the stream has brought since. */
function rowsOf(past: Asked<History>, streamed: readonly LedgerRow[]): readonly LedgerRow[] {
  if (past.kind !== 'answered') return []
  const known = new Set(past.answer.rows.map(({ position }) => position))
  const news = streamed.filter(({ position }) => !known.has(position))
  return news.length === 0 ? past.answer.rows : [...past.answer.rows, ...news]
}

function isShown(hold: Hold, words: readonly string[], window: TimeWindow, nowMs: number): boolean {
  if (firstMs(hold) > window.toMs || (hold.endedAtMs ?? nowMs) < window.fromMs) return false
  const text = `${hold.resource}\n${hold.holder}`.toLowerCase()
  return words.every((word) => text.includes(word))
}

function summary(past: Asked<History>, lanes: number): string {
  if (past.kind === 'asking') return 'Reading…'
  if (past.kind === 'refused') return past.problem
  return `${plural(lanes, 'lane')}${cutText(past, PAGES_MAX)}`
}

interface ToolsProps extends Shown {
  readonly by: 'resource' | 'holder'
  readonly params: URLSearchParams
}

function TimelineTools({ by, params, window, isFollowing, spanMs }: ToolsProps): JSX.Element {
  return (
    <div class="toolbar">
      <input
        id="filter"
        class="filter"
        type="search"
        placeholder="Filter by resource or holder   /"
        aria-label="Filter by resource or holder"
        value={params.get('q') ?? ''}
        onInput={(event) => changeParams({ q: event.currentTarget.value }, 'replace')}
      />
      <div class="segments" role="group" aria-label="Lanes">
        {(['resource', 'holder'] as const).map((name) => (
          <button
            key={name}
            type="button"
            aria-pressed={by === name}
            onClick={() => changeParams({ by: name === 'resource' ? '' : name })}
          >
            by {name}
          </button>
        ))}
      </div>
      <div class="segments" role="group" aria-label="Span">
        {SPANS.map(({ name, ms }) => (
          <button
            key={name}
            type="button"
            aria-pressed={isFollowing && spanMs === ms}
            onClick={() => changeParams({ span: String(ms), from: '', to: '' })}
          >
            {name}
          </button>
        ))}
      </div>
      <p class="counts">
        {momentText(window.fromMs)} – {isFollowing ? 'now' : momentText(window.toMs)}
      </p>
    </div>
  )
}
