/** Workflows: the owner and the epoch of each, and how the last lease of those without an owner ended. */
import type { JSX } from 'preact'
import { useMemo } from 'preact/hooks'
import { eventWord } from '../../core/event.ts'
import type { LeaseInfo } from '../../core/lease.ts'
import { hasEpoch } from '../../core/resource.ts'
import { useFeed } from '../state/live-feed.ts'
import { Mark, MARK_WORDS, markOf } from '../parts/marks.tsx'
import { HolderLink, ResourceLink } from '../parts/names.tsx'
import { Since, TimeLeft } from '../parts/time-left.tsx'
import { countText, momentText, plural } from '../parts/words.ts'
import { readHistory } from '../state/history.ts'
import { cutText, useAsked } from '../state/questions.ts'
import { markOfEvent } from '../state/holds.ts'
import type { LedgerRow } from '../wire/answers.ts'
import { Section } from './resource-view.tsx'

const ENDS = ['lease.released', 'lease.expired', 'lease.revoked', 'lease.transferred'] as const
const READ_AGAIN_MS = 5_000
const PAGES_MAX = 3

export function WorkflowView(): JSX.Element {
  const feed = useFeed()
  const version = feed.version.value
  const driven = useMemo(() => workflowsOf(feed.leases.all()), [version])
  const again = Math.floor(feed.nowMs.value / READ_AGAIN_MS)
  const past = useAsked('workflow ends', again, (signal) => {
    return readHistory(feed.calls, { types: ENDS, pagesMax: PAGES_MAX }, signal)
  }).value
  const left = past.kind === 'answered' ? lastEnds(past.answer.rows, driven) : []
  return (
    <main class="view page-sheet">
      <header class="subject">
        <h1>Workflow</h1>
        <p class="dim">{plural(driven.length, 'workflow')} driven now</p>
      </header>
      {driven.length === 0 ? (
        <p class="empty">No workflow is driven now.</p>
      ) : (
        <DrivenTable leases={driven} />
      )}
      {left.length === 0 ? null : (
        <Section title={`Without an owner${cutText(past, PAGES_MAX)}`}>
          <table>
            <tbody>
              {left.map(({ position, event }) => (
                <tr key={position}>
                  <td>
                    <ResourceLink name={event.resource} />
                  </td>
                  <td>
                    <HolderLink name={event.holder} />
                  </td>
                  <td>
                    <Mark name={markOfEvent(event)} isSilent /> {eventWord(event.type)}
                  </td>
                  <td class="dim">{momentText(event.atMs)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Section>
      )}
    </main>
  )
}

function DrivenTable({ leases }: { leases: readonly LeaseInfo[] }): JSX.Element {
  const feed = useFeed()
  const nowMs = feed.nowMs.value
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">Workflow</th>
          <th scope="col">State</th>
          <th scope="col">Owner</th>
          <th scope="col">Next epoch</th>
          <th scope="col">Since</th>
          <th scope="col">Time left</th>
          <th scope="col">Waiting</th>
        </tr>
      </thead>
      <tbody>
        {leases.map((lease) => (
          <tr key={lease.id}>
            <td>
              <ResourceLink name={lease.resource} />
            </td>
            <td>
              <Mark name={markOf(lease, nowMs)} isSilent /> {MARK_WORDS[markOf(lease, nowMs)]}
            </td>
            <td>
              <HolderLink name={lease.holder} />
            </td>
            <td>{lease.epoch === null ? '' : countText(lease.epoch)}</td>
            <td>
              <Since lease={lease} />
            </td>
            <td>
              <TimeLeft lease={lease} />
            </td>
            <td>{countText(feed.leases.queueOf(lease.resource))}</td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}

function workflowsOf(leases: Iterable<LeaseInfo>): readonly LeaseInfo[] {
  return [...leases]
    .filter(({ resource, state }) => state === 'active' && hasEpoch(resource))
    .toSorted((one, other) => (one.resource < other.resource ? -1 : 1))
}

function lastEnds(rows: readonly LedgerRow[], driven: readonly LeaseInfo[]): readonly LedgerRow[] {
  const live = new Set(driven.map(({ resource }) => resource))
  const last = new Map<string, LedgerRow>()
  for (const row of rows) if (hasEpoch(row.event.resource)) last.set(row.event.resource, row)
  return [...last.values()].filter(({ event }) => !live.has(event.resource)).toReversed()
}
