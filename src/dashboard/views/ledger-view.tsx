/** The ledger: up to where it is sealed and whether it was found whole, and who held a resource at any moment. */
import type { JSX } from 'preact'
import { useFeed } from '../state/live-feed.ts'
import { Mark, MARK_WORDS } from '../parts/marks.tsx'
import { HolderLink, ResourceLink } from '../parts/names.tsx'
import { momentText, plural, visibleName } from '../parts/words.ts'
import { holdersAt, PAST_PAGES_MAX } from '../state/past-holders.ts'
import { newestText } from '../state/history.ts'
import { useAsked } from '../state/questions.ts'
import { changeParams, route } from '../state/route.ts'
import { readLedgerStanding } from '../wire/answers.ts'
import { ProblemError } from '../wire/server-calls.ts'
import { Section } from './resource-view.tsx'

const READ_AGAIN_MS = 30_000

export function LedgerView(): JSX.Element {
  return (
    <main class="view page-sheet">
      <header class="subject">
        <h1>Ledger</h1>
      </header>
      <Standing />
      <Past />
    </main>
  )
}

function Standing(): JSX.Element | null {
  const feed = useFeed()
  const version = Math.floor(feed.nowMs.value / READ_AGAIN_MS)
  const asked = useAsked('ledger', version, async (signal) => {
    try {
      return readLedgerStanding(await feed.calls.json('/v1/ledger', { signal }))
    } catch (error) {
      if (error instanceof ProblemError && error.status === 404) return null
      throw error
    }
  }).value
  if (asked.kind === 'asking') return <p class="dim">Verifying…</p>
  if (asked.kind === 'refused') return <p class="problem">{asked.problem}</p>
  if (asked.answer === null) {
    return (
      <p class="dim">
        This server shows no sealed ledger: <code>tenure serve --ledger DIR</code> does.
      </p>
    )
  }
  const { checkpoint, verifiedAtMs, problem } = asked.answer
  return (
    <article class="card">
      <header>
        <Mark name={problem === null ? 'released' : 'revoked'} isSilent />
        {problem === null ? 'Whole: nothing was changed or left out' : visibleName(problem)}
      </header>
      <dl class="facts">
        <dt>sealed up to</dt>
        <dd>
          {checkpoint === null
            ? 'nothing yet'
            : `${momentText(checkpoint.atMs)}, ${plural(checkpoint.events, 'event')}, checkpoint ${checkpoint.sequence}`}
        </dd>
        <dt>verified</dt>
        <dd>{momentText(verifiedAtMs)}</dd>
      </dl>
    </article>
  )
}

/** Who held a resource at a moment. The address names both. */
function Past(): JSX.Element {
  const { params } = route.value
  const resource = params.get('name') ?? ''
  const at = params.get('at') ?? ''
  const atMs = at === '' ? NaN : new Date(at).getTime()
  return (
    <Section title="Who held this, at that moment?">
      <div class="toolbar question">
        <label class="field">
          Resource
          <input
            name="resource"
            placeholder="deploy:prod"
            value={resource}
            onInput={(event) => changeParams({ name: event.currentTarget.value }, 'replace')}
          />
        </label>
        <label class="field">
          Moment
          <input
            name="moment"
            type="datetime-local"
            step="1"
            value={at}
            onInput={(event) => changeParams({ at: event.currentTarget.value }, 'replace')}
          />
        </label>
      </div>
      {resource === '' || Number.isNaN(atMs) ? null : <Holders resource={resource} atMs={atMs} />}
    </Section>
  )
}

function Holders({ resource, atMs }: { resource: string; atMs: number }): JSX.Element {
  const feed = useFeed()
  const asked = useAsked(`${resource} ${atMs}`, 0, (signal) => {
    return holdersAt(feed.calls, { resource, atMs }, signal)
  }).value
  if (asked.kind === 'asking') return <p class="dim">Reading…</p>
  if (asked.kind === 'refused') return <p class="problem">{asked.problem}</p>
  const { holds, isCut } = asked.answer
  const among = isCut ? `${newestText(PAST_PAGES_MAX)} before it` : ''
  if (holds.length === 0) {
    return (
      <p class="outcome">
        No holder at {momentText(atMs)}
        {among}.
      </p>
    )
  }
  return (
    <table>
      {isCut ? (
        <caption>
          At {momentText(atMs)}
          {among}
        </caption>
      ) : null}
      <thead>
        <tr>
          <th scope="col">Holder</th>
          <th scope="col">Of</th>
          <th scope="col">Granted</th>
          <th scope="col">Ended</th>
          <th scope="col">Reason</th>
        </tr>
      </thead>
      <tbody>
        {holds.map((hold) => (
          <tr key={hold.leaseId}>
            <td>
              <HolderLink name={hold.holder} />
            </td>
            <td>
              <ResourceLink name={hold.resource} />
            </td>
            <td>{hold.grantedAtMs === null ? '' : momentText(hold.grantedAtMs)}</td>
            <td>
              {hold.end === null ? null : <Mark name={hold.end} isSilent />}{' '}
              {hold.endedAtMs === null || hold.end === null
                ? 'not by now'
                : `${MARK_WORDS[hold.end]} ${momentText(hold.endedAtMs)}`}
            </td>
            <td>
              <bdi>{visibleName(hold.reason ?? '')}</bdi>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}
