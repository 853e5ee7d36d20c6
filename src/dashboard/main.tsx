/** Opens the page: where one is, how the connection is, and the view that the address names. */
import { render, type JSX } from 'preact'
import { FeedProvider, useFeed, LiveFeed } from './state/live-feed.ts'
import { useEffect } from 'preact/hooks'
import { linkTo, route, VIEWS, type ViewName } from './state/route.ts'
import { visibleName } from './parts/words.ts'
import { AskedAct } from './views/acting.tsx'
import { FleetView } from './views/fleet-view.tsx'
import { HealthView } from './views/health-view.tsx'
import { LedgerView } from './views/ledger-view.tsx'
import { NowView } from './views/now-view.tsx'
import { ResourceView } from './views/resource-view.tsx'
import { TimelineView } from './views/timeline-view.tsx'
import { WaitsView } from './views/waits-view.tsx'
import { WorkflowView } from './views/workflow-view.tsx'
import { useSignal } from '@preact/signals'
import './style/page.css'
import './style/now.css'
import './style/chart.css'
import './style/views.css'
import type { Credentials } from './wire/server-calls.ts'

/** What the page knows for as long as its tab is open, and no longer. */
const TOKEN = 'tenure.token'
const NAMESPACE = 'tenure.namespace'

function storedCredentials(): Credentials {
  return { token: sessionStorage.getItem(TOKEN), namespace: sessionStorage.getItem(NAMESPACE) }
}

function storeCredentials({ token, namespace }: Credentials): void {
  store(TOKEN, token)
  store(NAMESPACE, namespace)
}

function store(name: string, value: string | null): void {
  if (value === null) sessionStorage.removeItem(name)
  else sessionStorage.setItem(name, value)
}

const TITLES: Readonly<Record<ViewName, string>> = {
  now: 'Now',
  timeline: 'Timeline',
  waits: 'Waits',
  fleet: 'Fleet',
  workflow: 'Workflow',
  ledger: 'Ledger',
  health: 'Health',
  resource: 'Resource',
}

function Page(): JSX.Element {
  const feed = useFeed()
  const connection = feed.connection.value
  const { view, params } = route.value
  const subject = view === 'resource' ? visibleName(params.get('name') ?? '') : TITLES[view]
  useEffect(() => {
    document.title = `${subject} · Tenure`
  }, [subject])
  useEffect(() => {
    document.addEventListener('keydown', onShortcut)
    return () => document.removeEventListener('keydown', onShortcut)
  }, [])
  if (connection.kind === 'token_needed') {
    return (
      <TokenPrompt
        problem={connection.problem}
        onToken={(token) => {
          const credentials = { token, namespace: null }
          storeCredentials(credentials)
          feed.restart(credentials)
        }}
      />
    )
  }
  return (
    <>
      <header class="top">
        <a class="brand" href={linkTo('now')}>
          Tenure
        </a>
        <nav aria-label="Views">
          {VIEWS.map((name) => (
            <a
              key={name}
              href={linkTo(name)}
              {...(name === view ? { 'aria-current': 'page' } : {})}
            >
              {TITLES[name]}
            </a>
          ))}
        </nav>
        <Standing />
      </header>
      {viewOf(view, params)}
      <AskedAct />
    </>
  )
}

function viewOf(view: ViewName, params: URLSearchParams): JSX.Element {
  switch (view) {
    case 'now':
      return <NowView />
    case 'resource':
      // Another resource is another view: it shows nothing of the one before.
      return <ResourceView key={params.get('name')} />
    case 'timeline':
      return <TimelineView />
    case 'waits':
      return <WaitsView />
    case 'fleet':
      return <FleetView />
    case 'workflow':
      return <WorkflowView />
    case 'ledger':
      return <LedgerView />
    case 'health':
      return <HealthView />
  }
}

/** Who looks, at which namespace, and whether what is shown is up to date. */
function Standing(): JSX.Element {
  const feed = useFeed()
  const connection = feed.connection.value
  const caller = feed.caller.value
  return (
    <div class="standing">
      {caller === null ? null : (
        <span class="caller">
          {caller.namespace === '*' ? 'default' : caller.namespace} · {caller.role}
        </span>
      )}
      <span class={`connection ${connection.kind}`} role="status">
        {connection.kind === 'live' ? 'live' : null}
        {connection.kind === 'connecting' ? 'connecting…' : null}
        {connection.kind === 'away' ? `${connection.problem}; trying again` : null}
      </span>
    </div>
  )
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.closest('input, select, textarea, dialog') !== null
}

/** `/` goes to the filter, digits to the views. */
function onShortcut(event: KeyboardEvent): void {
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return
  const view = VIEWS[Number(event.key) - 1]
  if (event.key === '/') document.getElementById('filter')?.focus()
  else if (view !== undefined) location.hash = linkTo(view)
  else return
  event.preventDefault()
}

interface Props {
  /** What was wrong with the one before; null: none was given yet. */
  readonly problem: string | null
  readonly onToken: (token: string) => void
}

/** Asks for the token, once for as long as the tab is open. */
function TokenPrompt({ problem, onToken }: Props): JSX.Element {
  const token = useSignal('')
  return (
    <main class="prompt">
      <form
        onSubmit={(event) => {
          event.preventDefault()
          if (token.value.trim() !== '') onToken(token.value.trim())
        }}
      >
        <h1>Tenure</h1>
        <label class="field">
          Token
          <input
            type="password"
            autocomplete="off"
            autofocus
            value={token.value}
            onInput={(event) => (token.value = event.currentTarget.value)}
          />
        </label>
        {problem === null ? null : (
          <p class="problem" role="alert">
            {problem}
          </p>
        )}
        <button type="submit" class="solid">
          Open
        </button>
        <p class="dim">
          <code>tenure tokens create --name me --role reader</code> makes one. It stays in this tab,
          and is forgotten with it.
        </p>
      </form>
    </main>
  )
}

const feed = new LiveFeed(storedCredentials())
feed.start()

const place = document.getElementById('page')
if (place !== null) {
  render(
    <FeedProvider value={feed}>
      <Page />
    </FeedProvider>,
    place,
  )
}
