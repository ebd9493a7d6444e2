// States over time. Grafana's own drawing of it is in its core; words and colours here come from its field options.
import { dateTimeFormat, type DisplayValue, type Field, FieldType, getFieldDisplayName, type PanelProps } from '@grafana/data';
import { LegendDisplayMode, useTheme2, VizLegend } from '@grafana/ui';
import { eventsOf } from './Marks';
import { hasValues, Message } from './Message';

type Stretch = { from: number; to: number; shown: DisplayValue };

/** Equal values one after the other are one stretch; it ends where the next begins, or a step after its last point. */
function stretches(times: number[], field: Field, end: number): Stretch[] {
  const gaps = times.slice(1).map((time, i) => time - times[i]);
  const step = Math.min(...gaps, end - times[0]);
  const found: Stretch[] = [];
  let before: unknown = null;
  field.values.forEach((value, i) => {
    const last = found[found.length - 1];
    const continues = last !== undefined && times[i] - last.to <= step / 2;
    if (value === null || value === undefined || Number.isNaN(value)) {
      before = null;
      return;
    }
    if (continues && value === before) {
      last.to = Math.min(times[i] + step, end);
    } else {
      found.push({ from: times[i], to: Math.min(times[i] + step, end), shown: field.display!(value) });
    }
    before = value;
  });
  return found;
}

/** Round times of day, five to ten of them. */
function ticks(from: number, to: number): number[] {
  const steps = [1, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440].map((minutes) => minutes * 60_000);
  const step = steps.find((one) => (to - from) / one <= 9) ?? steps[steps.length - 1];
  const first = Math.ceil(from / step) * step;
  return Array.from({ length: Math.floor((to - first) / step) + 1 }, (_, i) => first + i * step);
}

export const TimelinePanel = (panel: PanelProps<any>) => {
  const theme = useTheme2();
  const { data, options, timeRange, timeZone, width, height } = panel;
  if (!hasValues(panel)) {
    return <Message panel={panel} />;
  }
  const [from, to] = [timeRange.from.valueOf(), timeRange.to.valueOf()];
  const lanes = data.series.flatMap((frame) => {
    const times = Array.from(frame.fields.find(({ type }) => type === FieldType.time)?.values ?? []) as number[];
    return frame.fields
      .filter(({ type }) => type !== FieldType.time)
      .map((field) => ({ name: getFieldDisplayName(field, frame, data.series), found: stretches(times, field, to) }));
  });
  const [legendHeight, axisHeight] = [options.legend?.showLegend === false ? 0 : 28, 22];
  const left = 8 * Math.max(...lanes.map(({ name }) => name.length)) + 12;
  const plot = { width: width - left, height: height - legendHeight - axisHeight };
  const lane = plot.height / lanes.length;
  const thick = lane * (options.rowHeight ?? 0.9);
  const x = (time: number) => left + ((time - from) / (to - from)) * plot.width;
  const colors = new Map(lanes.flatMap(({ found }) => found.map(({ shown }) => [shown.text, shown.color ?? ''])));
  const text = { fill: theme.colors.text.primary, fontSize: 12, fontFamily: theme.typography.fontFamily };
  return (
    <>
      <svg width={width} height={height - legendHeight} style={{ display: 'block' }}>
        {ticks(from, to).map((time) => (
          <g key={time}>
            <line x1={x(time)} x2={x(time)} y1={0} y2={plot.height} stroke={theme.colors.border.weak} />
            <text x={x(time)} y={plot.height + 16} textAnchor="middle" {...text}>
              {dateTimeFormat(time, { format: 'HH:mm', timeZone })}
            </text>
          </g>
        ))}
        {lanes.map(({ name, found }, row) => (
          <g key={name}>
            <text x={left - 8} y={(row + 0.5) * lane + 4} textAnchor="end" {...text}>
              {name}
            </text>
            {found.map(({ from: start, to: end, shown }) => {
              const [begin, long] = [x(Math.max(start, from)), x(end) - x(Math.max(start, from))];
              return (
                <svg key={start} x={begin} y={row * lane + (lane - thick) / 2} width={Math.max(long, 1)} height={thick}>
                  <rect width="100%" height="100%" fill={shown.color} fillOpacity={0.85} />
                  {shown.text.length * 7 < long && (
                    <text x={6} y={thick / 2 + 4} {...text} fill={theme.colors.getContrastText(shown.color ?? '#000', 3)}>
                      {shown.text}
                    </text>
                  )}
                </svg>
              );
            })}
          </g>
        ))}
        {eventsOf(data.annotations)
          .filter(({ time }) => time >= from && time <= to)
          .map(({ time, color }, row) => (
            <g key={row} stroke={color} fill={color}>
              <line x1={x(time)} x2={x(time)} y1={0} y2={plot.height} strokeWidth={2} strokeDasharray="5 5" />
              <path d={`M${x(time)} ${plot.height} l-5 5 h10 z`} />
            </g>
          ))}
      </svg>
      {legendHeight > 0 && (
        <VizLegend
          placement="bottom"
          displayMode={LegendDisplayMode.List}
          items={[...colors].map(([label, color]) => ({ label, color, yAxis: 1 }))}
        />
      )}
    </>
  );
};
