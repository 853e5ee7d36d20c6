/** Opens the page. */
import { render } from 'preact'
import { FeedProvider } from './feed-context.ts'
import { Page } from './page.tsx'
import { LiveFeed } from './state/live-feed.ts'
import { storedCredentials } from './state/session.ts'
import './style/page.css'
import './style/now.css'
import './style/chart.css'
import './style/views.css'

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
