// Annotations on a graph: a dashed line and a triangle each, a band where one lasts. Grafana's own are in its core; the
// events come from its code, as do their colours.
import type { DataFrame } from '@grafana/data';
import { type UPlotConfigBuilder, useTheme2 } from '@grafana/ui';
import { useLayoutEffect, useRef } from 'react';
import type uPlot from 'uplot';

type Event = { time: number; timeEnd?: number; color?: string };

export function eventsOf(frames: DataFrame[] = []): Event[] {
  return frames.flatMap((frame) => {
    const column = (name: string) => frame.fields.find((field) => field.name === name)?.values ?? [];
    const [times, ends, colors] = [column('time'), column('timeEnd'), column('color')];
    return Array.from(times, (time, row) => ({ time, timeEnd: ends[row], color: colors[row] }));
  });
}

function draw(plot: uPlot, events: Event[], paintOf: (name: string) => string) {
  const { ctx, bbox } = plot;
  const bottom = bbox.top + bbox.height;
  const size = 5 * devicePixelRatio;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left - size, bbox.top, bbox.width + 2 * size, bbox.height + 2 * size);
  ctx.clip();
  for (const { time, timeEnd, color } of events) {
    const x = plot.valToPos(time, 'x', true);
    ctx.strokeStyle = ctx.fillStyle = paintOf(color ?? 'blue');
    if (timeEnd && timeEnd > time) {
      ctx.globalAlpha = 0.1;
      ctx.fillRect(x, bbox.top, plot.valToPos(timeEnd, 'x', true) - x, bbox.height);
      ctx.globalAlpha = 1;
    }
    ctx.lineWidth = 2 * devicePixelRatio;
    ctx.setLineDash([5, 5]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bottom);
    ctx.stroke();
    ctx.beginPath();
    ctx.moveTo(x, bottom);
    ctx.lineTo(x - size, bottom + size);
    ctx.lineTo(x + size, bottom + size);
    ctx.fill();
  }
  ctx.restore();
}

export function Marks({ config, frames }: { config: UPlotConfigBuilder; frames?: DataFrame[] }) {
  const { visualization } = useTheme2();
  const events = useRef<Event[]>([]);
  const plot = useRef<uPlot>(undefined);
  useLayoutEffect(() => {
    config.addHook('init', (made) => {
      plot.current = made;
    });
    config.addHook('draw', (made) => draw(made, events.current, visualization.getColorByName));
  }, [config, visualization]);
  // Events come later than the lines.
  useLayoutEffect(() => {
    events.current = eventsOf(frames);
    plot.current?.redraw();
  }, [frames]);
  return null;
}
